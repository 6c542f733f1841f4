// From the hash of an id to row numbers: which rows an id may have. Whether it is the id is for the caller to compare,
// who knows what an id is. Knows no Python.
//
// Open addressing in shards that grow one by one, so that no single id waits for a table of millions to be moved. A
// slot is one word: 40 bits of row number, 24 bits of hash, from which the slot's place follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "prefetch.hpp"

namespace memsel {

class RowTable {
public:
    static constexpr std::int64_t kMostRows = (std::int64_t{1} << 40) - 1;

    struct Cursor {
        std::uint64_t at;
        std::uint64_t fragment;
        std::uint32_t shard;
    };

    RowTable() : shards_(kShards) {}

    // Spreads the bits of a hash, since those of integers are the integers.
    static std::uint64_t mixed(std::uint64_t hash) {
        hash *= 0x9e3779b97f4a7c15u;
        return hash ^ (hash >> 32);
    }

    void fetch(std::uint64_t mixed_hash) const {
        const Shard& shard = shards_[mixed_hash % kShards];
        if (!shard.slots.empty()) prefetch(&shard.slots[fragment_of(mixed_hash) & shard.mask()]);
    }
    Cursor find(std::uint64_t mixed_hash) const {
        const auto shard = static_cast<std::uint32_t>(mixed_hash % kShards);
        const std::uint64_t fragment = fragment_of(mixed_hash);
        return {shards_[shard].slots.empty() ? 0 : fragment & shards_[shard].mask(), fragment, shard};
    }
    // The next row that the hash may stand for, or -1.
    std::int64_t next(Cursor& cursor) const {
        const Shard& shard = shards_[cursor.shard];
        if (shard.slots.empty()) return -1;
        for (;;) {
            const std::uint64_t slot = shard.slots[cursor.at];
            if (slot == kEmpty) return -1;
            cursor.at = (cursor.at + 1) & shard.mask();
            if ((slot & kFragmentMask) == cursor.fragment) return static_cast<std::int64_t>(slot >> kFragmentBits);
        }
    }
    void insert(std::uint64_t mixed_hash, std::int64_t row) {
        if (row > kMostRows) throw std::length_error("a pool gives at most 2**40 row numbers");
        Shard& shard = shards_[mixed_hash % kShards];
        if (shard.slots.empty() || (shard.used + 1) * 4 > shard.slots.size() * 3) grow(shard);
        place(shard, static_cast<std::uint64_t>(row) << kFragmentBits | fragment_of(mixed_hash));
        ++shard.used;
    }
    // Makes room for so many more ids at once.
    void reserve(std::size_t more) {
        for (Shard& shard : shards_) {
            while ((shard.used + more / kShards) * 4 > shard.slots.size() * 3) grow(shard);
        }
    }
    void erase(std::uint64_t mixed_hash, std::int64_t row) {
        Shard& shard = shards_[mixed_hash % kShards];
        const std::uint64_t wanted = static_cast<std::uint64_t>(row) << kFragmentBits | fragment_of(mixed_hash);
        std::uint64_t hole = wanted & kFragmentMask & shard.mask();
        while (shard.slots[hole] != wanted) hole = (hole + 1) & shard.mask();
        // Slots behind the hole move up where they may stand there, so that no search ends too early.
        for (std::uint64_t at = (hole + 1) & shard.mask(); shard.slots[at] != kEmpty; at = (at + 1) & shard.mask()) {
            const std::uint64_t home = shard.slots[at] & kFragmentMask & shard.mask();
            if (((at - home) & shard.mask()) >= ((at - hole) & shard.mask())) {
                shard.slots[hole] = shard.slots[at];
                hole = at;
            }
        }
        shard.slots[hole] = kEmpty;
        --shard.used;
    }
    std::size_t bytes() const {
        std::size_t sum = shards_.size() * sizeof(Shard);
        for (const Shard& shard : shards_) sum += shard.slots.capacity() * sizeof(std::uint64_t);
        return sum;
    }

private:
    static constexpr std::uint64_t kShards = 64;
    static constexpr int kFragmentBits = 24;
    static constexpr std::uint64_t kFragmentMask = (std::uint64_t{1} << kFragmentBits) - 1;
    static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

    struct Shard {
        std::vector<std::uint64_t> slots;  // a power of two of them, or none
        std::uint64_t used = 0;

        std::uint64_t mask() const { return slots.size() - 1; }
    };

    static std::uint64_t fragment_of(std::uint64_t mixed_hash) { return mixed_hash / kShards & kFragmentMask; }
    static void place(Shard& shard, std::uint64_t slot) {
        std::uint64_t at = slot & kFragmentMask & shard.mask();
        while (shard.slots[at] != kEmpty) at = (at + 1) & shard.mask();
        shard.slots[at] = slot;
    }
    static void grow(Shard& shard) {
        if (shard.slots.size() > kFragmentMask) throw std::length_error("too many ids for one pool");
        Shard larger;
        larger.slots.assign(shard.slots.empty() ? 8 : shard.slots.size() * 2, kEmpty);
        for (const std::uint64_t slot : shard.slots) {
            if (slot != kEmpty) place(larger, slot);
        }
        shard.slots.swap(larger.slots);
    }

    std::vector<Shard> shards_;
};

}  // namespace memsel
