// Hands out the numbers of a batch's queries to threads, in order, and remembers the first that failed. No Python here.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace memsel {

class WorkQueue {
public:
    void start(std::int64_t count) {
        count_ = count;
        next_.store(0);
        first_failed_.store(count);
        stopped_.store(false);
    }
    // The next query's number, or -1. Once a query has failed, only those handed out before go on, so that the failure
    // with the lowest number is the one that a single thread would have met.
    std::int64_t take() {
        std::int64_t end;
        return take_run(1, end);
    }
    // The first number of the next run of at most `most` queries, and its end; or -1. A thread that takes neighbours
    // reads memory straight on.
    std::int64_t take_run(std::int64_t most, std::int64_t& end) {
        if (stopped_.load(std::memory_order_relaxed) || first_failed_.load(std::memory_order_relaxed) < count_) return -1;
        const std::int64_t first = next_.fetch_add(most, std::memory_order_relaxed);
        end = std::min(first + most, count_);
        return first < count_ ? first : -1;
    }
    // Whether a query that was handed out need not be done any more.
    bool is_past(std::int64_t number) const {
        return stopped_.load(std::memory_order_relaxed) || first_failed_.load(std::memory_order_relaxed) < number;
    }
    void fail(std::int64_t number) {
        std::int64_t lowest = first_failed_.load();
        while (number < lowest && !first_failed_.compare_exchange_weak(lowest, number)) {
        }
    }
    void stop() { stopped_.store(true); }
    // The lowest number that failed, or -1.
    std::int64_t first_failed() const {
        const std::int64_t number = first_failed_.load();
        return number < count_ ? number : -1;
    }

private:
    std::int64_t count_ = 0;
    std::atomic<std::int64_t> next_{0};
    std::atomic<std::int64_t> first_failed_{0};
    std::atomic<bool> stopped_{false};
};

}  // namespace memsel
