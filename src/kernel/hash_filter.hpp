// A set of hashes that answers "certainly not" quickly: one bit a hash. A wrong "perhaps" costs a look-up far away in
// memory, so there are 256 bits a member as long as the bits stay near the processor, and never fewer than 16. Knows no
// Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memsel {

class HashFilter {
public:
    void start(std::size_t members) {
        std::size_t words = 16;
        while (words < members / 4 || (words < 4 * members && words < kNearWords)) words *= 2;
        bits_.assign(words, 0);
        mask_ = words * 64 - 1;
    }
    void stop() { bits_.clear(); }
    bool is_on() const { return !bits_.empty(); }
    void add(std::uint64_t hash) { bits_[(hash & mask_) >> 6] |= std::uint64_t{1} << (hash & 63); }
    bool certainly_lacks(std::uint64_t hash) const { return ((bits_[(hash & mask_) >> 6] >> (hash & 63)) & 1) == 0; }

private:
    static constexpr std::size_t kNearWords = 4096;  // 32 KiB

    std::vector<std::uint64_t> bits_;
    std::uint64_t mask_ = 0;
};

}  // namespace memsel
