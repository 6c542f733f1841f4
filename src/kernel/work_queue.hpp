// Hands out the numbers of a batch's queries to threads, in order, and remembers the first that failed. No Python here.
#pragma once

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
        if (stopped_.load(std::memory_order_relaxed) || first_failed_.load(std::memory_order_relaxed) < count_) return -1;
        const std::int64_t number = next_.fetch_add(1, std::memory_order_relaxed);
        return number < count_ ? number : -1;
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
