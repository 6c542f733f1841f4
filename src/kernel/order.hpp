// The order of ranked rows, and the best of a stream of them. Knows no Python.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace memsel {

struct Ranked {
    double score;  // never NaN
    std::int64_t row;
};

// The total order of a selection: higher score first; equal scores (0.0 and -0.0 are equal) by input position.
inline bool before(const Ranked& a, const Ranked& b) {
    return a.score > b.score || (a.score == b.score && a.row < b.row);
}

// The same as a type, which sorting functions inline.
struct Before {
    bool operator()(const Ranked& a, const Ranked& b) const { return before(a, b); }
};

// Keeps the first `capacity` rows, in the order above, of rows offered in input order.
class BestRows {
public:
    void start(std::int64_t capacity, double threshold) {
        capacity_ = static_cast<std::size_t>(capacity);
        is_heap_ = capacity_ <= kHeapCapacity;
        full_ = false;
        bound_ = threshold;
        rows_.clear();
        rows_.reserve(is_heap_ ? capacity_ : std::min<std::size_t>(2 * capacity_, 1u << 16));
    }

    // No row whose score is below the bound can enter any more.
    double bound() const { return bound_; }

    // Once full, an equal score is too late: the rows held stand before it in the input.
    bool admits(double score) const { return full_ ? score > bound_ : score >= bound_; }

    // `score` is admitted, and `row` lies behind every row offered before.
    void offer(double score, std::int64_t row) {
        if (!is_heap_) {
            rows_.push_back({score, row});
            if (rows_.size() >= 2 * capacity_) cut_back();
            return;
        }
        if (full_) {
            std::pop_heap(rows_.begin(), rows_.end(), Before{});
            rows_.back() = {score, row};
        } else {
            rows_.push_back({score, row});
        }
        std::push_heap(rows_.begin(), rows_.end(), Before{});
        if (rows_.size() == capacity_) {
            full_ = true;
            bound_ = rows_.front().score;
        }
    }

    // The rows held, in order.
    const std::vector<Ranked>& finish() {
        if (is_heap_) {
            std::sort_heap(rows_.begin(), rows_.end(), Before{});
        } else {
            if (rows_.size() > capacity_) cut_back();
            std::sort(rows_.begin(), rows_.end(), Before{});
        }
        return rows_;
    }

private:
    // Up to here a heap is quicker than cutting a buffer back now and then.
    static constexpr std::size_t kHeapCapacity = 256;

    void cut_back() {
        const auto last_kept = rows_.begin() + static_cast<std::ptrdiff_t>(capacity_ - 1);
        std::nth_element(rows_.begin(), last_kept, rows_.end(), Before{});
        bound_ = last_kept->score;
        full_ = true;
        rows_.resize(capacity_);
    }

    std::vector<Ranked> rows_;
    std::size_t capacity_ = 1;
    double bound_ = 0.0;
    bool is_heap_ = true;
    bool full_ = false;
};

}  // namespace memsel
