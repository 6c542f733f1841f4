// The present state of a pool, and how it is changed while others read. Knows no Python.
//
// The lock is held for one copy of a pointer, or for one small change; never while waiting for anything else. Changes
// come from one thread at a time, which the caller sees to: a large one is made on a Root of its own, without the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "pool_tree.hpp"

namespace memsel {

// Records as they come in, column by column.
struct RecordColumns {
    const double* timestamp = nullptr;
    const double* importance = nullptr;
    const double* decay_factor = nullptr;  // null: 1
    const double* last_access = nullptr;   // null: the timestamp
    const std::int64_t* tokens = nullptr;
    std::int64_t count = 0;

    Record at(std::int64_t i) const {
        return {timestamp[i], importance[i], decay_factor == nullptr ? 1.0 : decay_factor[i],
                last_access == nullptr ? timestamp[i] : last_access[i], tokens[i]};
    }
};

using Snapshot = std::shared_ptr<const Root>;

class PoolStore {
public:
    explicit PoolStore(std::size_t block_rows) : block_rows_(block_rows), root_(std::make_shared<Root>()) {}

    // The present state, which no later change touches.
    Snapshot snapshot() const {
        const std::lock_guard<std::mutex> held(lock_);
        return root_;
    }

    // For the thread that changes: what it reads here stays so until it changes it.
    const Record& record(std::int64_t row) const { return root_->record(row); }
    std::int64_t living() const { return root_->living; }
    std::int64_t next_row() const { return root_->next_row; }

    void put(std::int64_t row, const Record& record) {
        const std::lock_guard<std::mutex> held(lock_);
        Change(own(root_), block_rows_).put(row, record);
    }
    void remove(std::int64_t row) {
        const std::lock_guard<std::mutex> held(lock_);
        Change(own(root_), block_rows_).remove(row);
    }

    // Many rows, all of them or, where memory runs out, none. Of a row that occurs twice the last record counts.
    void put_all(const std::int64_t* rows, const RecordColumns& records) {
        auto next = std::make_shared<Root>(*snapshot());
        Change change(*next, block_rows_);
        if (records.count >= kFewRows && records.count >= next->living / 4) {
            for (std::int64_t i = 0; i < records.count; ++i) change.write(rows[i], records.at(i));
            change.rebuild_index();
        } else {
            for (std::int64_t i = 0; i < records.count; ++i) change.put(rows[i], records.at(i));
        }
        publish(std::move(next));
    }

    // Starts over with rows that rise; every row so far given is below `next_row`.
    void load(const std::int64_t* rows, const RecordColumns& records, std::int64_t next_row) {
        auto next = std::make_shared<Root>();
        Change change(*next, block_rows_);
        for (std::int64_t i = 0; i < records.count; ++i) change.write(rows[i], records.at(i));
        change.rebuild_index();
        change.give_up_to(next_row);
        publish(std::move(next));
    }

    // No row below `next_row` will be given any more.
    void give_up_to(std::int64_t next_row) {
        const std::lock_guard<std::mutex> held(lock_);
        Change(own(root_), block_rows_).give_up_to(next_row);
    }

private:
    static constexpr std::int64_t kFewRows = 64;

    void publish(std::shared_ptr<Root> next) {
        {
            const std::lock_guard<std::mutex> held(lock_);
            root_.swap(next);
        }
        // What only the old state held is freed here, after the lock.
    }

    const std::size_t block_rows_;
    mutable std::mutex lock_;
    std::shared_ptr<Root> root_;
};

}  // namespace memsel
