// The rows of a pool as they lie in memory, shared between the states that readers see. Knows no Python.
//
// Two structures over the same rows. Records lie by row number, in chunks and segments of chunks: whatever is reported
// or decided is read there. The index lies by time, in blocks and groups of blocks, and holds only what it takes to
// leave rows out: time, importance as a float32, a code of the tokens. Each block and group has a summary from which an
// upper bound of its rows' scores follows.
//
// Everything hangs on shared_ptr. A Root is one state of the pool. Who wants to change something asks own() for it on
// the way down: what nobody else holds is changed where it is, what a reader's Root holds as well is copied first, so
// that no state that somebody looks at ever changes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "prefetch.hpp"

namespace memsel {

// --- records, by row number
// ---------------------------------------------------------------------------------------------

struct Record {
    double timestamp;
    double importance;
    double decay_factor;
    double last_access;
    std::int64_t tokens;  // -1: there is no row of this number, or no longer

    bool lives() const { return tokens >= 0; }
    double effective_importance() const { return importance * decay_factor; }
};

inline constexpr Record kNoRecord{0.0, 0.0, 0.0, 0.0, -1};
constexpr std::int64_t kChunkRows = 64;
constexpr std::int64_t kSegmentRows = kChunkRows * 256;

struct Chunk {
    Record rows[kChunkRows];
    std::int64_t living = 0;

    Chunk() { std::fill(rows, rows + kChunkRows, kNoRecord); }
};

// A chunk without a living row is a null pointer, and so is a segment.
struct Segment {
    std::vector<std::shared_ptr<Chunk>> chunks;
    std::int64_t living = 0;
};

// --- the index, by time
// -------------------------------------------------------------------------------------------------

// Where a row stands in the order of the index.
struct Key {
    double timestamp;  // never NaN
    std::int64_t row;

    bool operator<(const Key& other) const {
        return timestamp < other.timestamp || (timestamp == other.timestamp && row < other.row);
    }
};

inline int bit_width(std::uint64_t value) {
#if defined(__GNUC__) || defined(__clang__)
    return value == 0 ? 0 : 64 - __builtin_clzll(value);
#else
    int width = 0;
    for (; value != 0; value >>= 1) ++width;
    return width;
#endif
}

// Tokens in sixteen bits: the same number up to 2047, then ten bits after the leading one. Never falls as tokens rise.
inline std::uint16_t token_code(std::int64_t tokens) {
    const int shift = std::max(0, bit_width(static_cast<std::uint64_t>(tokens)) - 11);
    return static_cast<std::uint16_t>((static_cast<std::int64_t>(shift) << 10) + (tokens >> shift));
}

// Rows of class c have at most 16 * 2^c tokens; rows of more are in no class.
constexpr int kTokenClasses = 12;
constexpr std::int64_t kFirstClassTokens = 16;

// The first class that holds every row of at most so many tokens; kTokenClasses where none does.
inline int token_class(std::int64_t tokens) {
    const int above = tokens <= kFirstClassTokens ? 0 : bit_width(static_cast<std::uint64_t>(tokens - 1)) - 4;
    return std::min(above, kTokenClasses);
}

// What a block's or a group's rows have in common. Importances are those of the index, float32.
struct Summary {
    static constexpr float kNone = -std::numeric_limits<float>::infinity();

    double newest = -std::numeric_limits<double>::infinity();
    double oldest = std::numeric_limits<double>::infinity();
    float most_importance = kNone;
    float least_importance = std::numeric_limits<float>::infinity();
    std::uint16_t fewest_tokens = 0xffff;         // as a code
    std::array<float, kTokenClasses> most_by_class = none();  // the most importance of rows of this class or one below

    void add(double timestamp, float importance, std::uint16_t tokens, int first_class) {
        newest = std::max(newest, timestamp);
        oldest = std::min(oldest, timestamp);
        most_importance = std::max(most_importance, importance);
        least_importance = std::min(least_importance, importance);
        fewest_tokens = std::min(fewest_tokens, tokens);
        for (int number = first_class; number < kTokenClasses && most_by_class[number] < importance; ++number) {
            most_by_class[number] = importance;
        }
    }

    void add(const Summary& other) {
        newest = std::max(newest, other.newest);
        oldest = std::min(oldest, other.oldest);
        most_importance = std::max(most_importance, other.most_importance);
        least_importance = std::min(least_importance, other.least_importance);
        fewest_tokens = std::min(fewest_tokens, other.fewest_tokens);
        for (int number = 0; number < kTokenClasses; ++number) {
            most_by_class[number] = std::max(most_by_class[number], other.most_by_class[number]);
        }
    }

    // Whether the summary may be another one without this row.
    bool rests_on(double timestamp, float importance, std::uint16_t tokens, int first_class) const {
        if (timestamp == newest || timestamp == oldest || importance == most_importance ||
            importance == least_importance || tokens == fewest_tokens) {
            return true;
        }
        for (int number = first_class; number < kTokenClasses; ++number) {
            if (most_by_class[number] == importance) return true;
        }
        return false;
    }

private:
    static constexpr std::array<float, kTokenClasses> none() {
        std::array<float, kTokenClasses> values{};
        for (int number = 0; number < kTokenClasses; ++number) values[number] = kNone;
        return values;
    }
};

// The class, from a code of tokens. A code is rounded down, so that the class may be one too low but never too high.
inline int class_of_code(std::uint16_t code) {
    if (code < 2048) return token_class(code);
    const unsigned shift = (code >> 10) - 1u;
    return token_class(static_cast<std::int64_t>(code - (shift << 10)) << shift);
}

// Up to `block_rows` rows that follow each other in the order of keys; among themselves they lie as they come.
struct Block {
    std::vector<double> timestamp;
    std::vector<float> importance;       // the effective one, rounded to nearest
    std::vector<std::uint32_t> row_low;  // the row number in two parts
    std::vector<std::uint16_t> row_high;
    std::vector<std::uint16_t> tokens;   // as codes

    std::size_t size() const { return timestamp.size(); }
    std::int64_t row(std::size_t at) const {
        return static_cast<std::int64_t>((static_cast<std::uint64_t>(row_high[at]) << 32) | row_low[at]);
    }
    Key key(std::size_t at) const { return {timestamp[at], row(at)}; }

    void reserve(std::size_t rows) {
        timestamp.reserve(rows);
        importance.reserve(rows);
        row_low.reserve(rows);
        row_high.reserve(rows);
        tokens.reserve(rows);
    }
    void push(double time, float one_importance, std::int64_t number, std::uint16_t code) {
        // A little at a time: blocks are many, and each half empty one would cost as much as its rows.
        if (size() == timestamp.capacity()) reserve(size() + std::max<std::size_t>(16, size() / 8));
        timestamp.push_back(time);
        importance.push_back(one_importance);
        row_low.push_back(static_cast<std::uint32_t>(number));
        row_high.push_back(static_cast<std::uint16_t>(number >> 32));
        tokens.push_back(code);
    }
    void push(const Block& from, std::size_t at) {
        push(from.timestamp[at], from.importance[at], from.row(at), from.tokens[at]);
    }
    void drop(std::size_t at) {
        timestamp[at] = timestamp.back();
        importance[at] = importance.back();
        row_low[at] = row_low.back();
        row_high[at] = row_high.back();
        tokens[at] = tokens.back();
        timestamp.pop_back();
        importance.pop_back();
        row_low.pop_back();
        row_high.pop_back();
        tokens.pop_back();
    }
    // Where the row lies, which is in this block.
    std::size_t find(std::int64_t number) const {
        const auto low = static_cast<std::uint32_t>(number);
        std::size_t at = 0;
        const std::size_t rows = size();
        for (;; ++at) {
            // Sixteen comparisons at a time, without a branch between them.
            while (at + 16 <= rows) {
                unsigned hits = 0;
                for (int i = 0; i < 16; ++i) hits |= row_low[at + i] == low;
                if (hits) break;
                at += 16;
            }
            while (at < rows && row_low[at] != low) ++at;
            if (at >= rows || row(at) == number) return at;
        }
    }
    Summary summary() const {
        Summary made;
        std::array<float, kTokenClasses + 1> most;
        most.fill(Summary::kNone);
        for (std::size_t at = 0; at < size(); ++at) {
            made.newest = std::max(made.newest, timestamp[at]);
            made.oldest = std::min(made.oldest, timestamp[at]);
        }
        for (std::size_t at = 0; at < size(); ++at) {
            made.least_importance = std::min(made.least_importance, importance[at]);
            made.fewest_tokens = std::min(made.fewest_tokens, tokens[at]);
            float& of_class = most[static_cast<std::size_t>(class_of_code(tokens[at]))];
            of_class = std::max(of_class, importance[at]);
        }
        float so_far = Summary::kNone;
        for (std::size_t number = 0; number < kTokenClasses; ++number) {
            made.most_by_class[number] = so_far = std::max(so_far, most[number]);
        }
        made.most_importance = std::max(so_far, most[kTokenClasses]);
        return made;
    }
};

constexpr std::size_t kGroupBlocks = 64;

// Blocks that follow each other. Keys of block i are at least least[i], except those of the first, and below least[i +
// 1].
struct Group {
    std::vector<std::shared_ptr<Block>> blocks;
    std::vector<Summary> summaries;
    std::vector<Key> least;

    Summary summary() const {
        Summary made;
        for (const Summary& one : summaries) made.add(one);
        return made;
    }
    void insert(std::size_t at, std::shared_ptr<Block> block, const Key& first) {
        const auto place = static_cast<std::ptrdiff_t>(at);
        summaries.insert(summaries.begin() + place, block->summary());
        blocks.insert(blocks.begin() + place, std::move(block));
        least.insert(least.begin() + place, first);
    }
    void erase(std::size_t at) {
        const auto place = static_cast<std::ptrdiff_t>(at);
        blocks.erase(blocks.begin() + place);
        summaries.erase(summaries.begin() + place);
        least.erase(least.begin() + place);
    }
    // The blocks from `at` on, taken off into a group of their own.
    std::shared_ptr<Group> split(std::size_t at) {
        const auto place = static_cast<std::ptrdiff_t>(at);
        auto upper = std::make_shared<Group>();
        upper->blocks.assign(blocks.begin() + place, blocks.end());
        upper->summaries.assign(summaries.begin() + place, summaries.end());
        upper->least.assign(least.begin() + place, least.end());
        blocks.resize(at);
        summaries.resize(at);
        least.resize(at, least.front());
        return upper;
    }
};

// The last position whose key is not above the given one, or the first.
inline std::size_t position_of(const std::vector<Key>& least, const Key& key) {
    const auto above = std::upper_bound(least.begin(), least.end(), key);
    return above == least.begin() ? 0 : static_cast<std::size_t>(above - least.begin()) - 1;
}

// --- one state of a pool
// ------------------------------------------------------------------------------------------------

// The object, made the caller's own: copied where somebody else holds it too.
template <class T>
T& own(std::shared_ptr<T>& held) {
    if (held.use_count() != 1) {
        held = std::make_shared<T>(*held);
    } else {
        // Whoever held it last has let it go in another thread; its reads come before our writes.
        std::atomic_thread_fence(std::memory_order_acquire);
    }
    return *held;
}

// Where a row is in the index: nowhere if its time is no number (it is never selected and cannot overflow), and with
// the odd ones if its numbers are too large for the bounds to hold or its importance is no number.
enum class Place { kNowhere, kIndex, kOdd };

inline Place place_of(const Record& record) {
    if (std::isnan(record.timestamp)) return Place::kNowhere;
    const bool plain = std::fabs(record.timestamp) <= 1e15 && std::fabs(record.effective_importance()) <= 1e30;
    return plain ? Place::kIndex : Place::kOdd;
}

struct Root {
    std::vector<std::shared_ptr<Segment>> segments;
    std::vector<std::shared_ptr<Group>> groups;
    std::vector<Summary> summaries;  // of the groups
    std::vector<Key> least;          // as within a group
    std::shared_ptr<std::vector<std::int64_t>> odd = std::make_shared<std::vector<std::int64_t>>();  // rising
    std::int64_t living = 0;
    std::int64_t next_row = 0;  // every row given so far is below

    const Record& record(std::int64_t row) const {
        if (row < 0 || row >= next_row) return kNoRecord;
        const std::shared_ptr<Chunk>* chunk = chunk_of(row);
        return chunk != nullptr && *chunk ? (*chunk)->rows[row % kChunkRows] : kNoRecord;
    }
    // Where the chunk of a row hangs, or null. The row is one that was given.
    const std::shared_ptr<Chunk>* chunk_of(std::int64_t row) const {
        const Segment* segment = segments[static_cast<std::size_t>(row / kSegmentRows)].get();
        const auto at = static_cast<std::size_t>(row % kSegmentRows / kChunkRows);
        return segment != nullptr && at < segment->chunks.size() ? &segment->chunks[at] : nullptr;
    }
};

// Changes to a Root, which the caller owns. `block_rows`: how many rows a block holds at most.
class Change {
public:
    Change(Root& root, std::size_t block_rows) : root_(root), block_rows_(block_rows) {}

    // A new row, or new values of one that there is.
    void put(std::int64_t row, const Record& record) {
        const Record before = root_.record(row);
        if (before.lives()) {
            move_in_index(row, before, record);
        } else {
            enter_index(row, record);
        }
        write(row, record);
    }

    void remove(std::int64_t row) {
        leave_index(row, root_.record(row));
        write(row, kNoRecord);
    }

    // Only the record; the caller sees to the index.
    void write(std::int64_t row, const Record& record) {
        grow_to(row);
        auto& held_segment = root_.segments[static_cast<std::size_t>(row / kSegmentRows)];
        if (!held_segment) held_segment = std::make_shared<Segment>();
        Segment& segment = own(held_segment);
        auto& chunks = segment.chunks;
        const auto at = static_cast<std::size_t>(row % kSegmentRows / kChunkRows);
        if (at >= chunks.size()) chunks.resize(at + 1);
        if (!chunks[at]) chunks[at] = std::make_shared<Chunk>();
        Chunk& chunk = own(chunks[at]);
        Record& held = chunk.rows[row % kChunkRows];
        const int gained = static_cast<int>(record.lives()) - static_cast<int>(held.lives());
        held = record;
        chunk.living += gained;
        segment.living += gained;
        root_.living += gained;
        if (chunk.living == 0) chunks[at].reset();
        if (segment.living == 0) held_segment.reset();
    }

    // No row below `next_row` will be given any more.
    void give_up_to(std::int64_t next_row) {
        if (next_row > 0) grow_to(next_row - 1);
    }

    // The whole index anew, from the records.
    void rebuild_index();

private:
    struct Found {
        std::size_t group;
        std::size_t block;
    };

    void grow_to(std::int64_t row) {
        if (row < root_.next_row) return;
        root_.next_row = row + 1;
        while (static_cast<std::int64_t>(root_.segments.size()) * kSegmentRows <= row) root_.segments.emplace_back();
    }

    Found find(const Key& key) const {
        const std::size_t group = position_of(root_.least, key);
        return {group, position_of(root_.groups[group]->least, key)};
    }

    void enter_index(std::int64_t row, const Record& record) {
        const Place place = place_of(record);
        if (place == Place::kOdd) {
            auto& odd = own(root_.odd);
            odd.insert(std::lower_bound(odd.begin(), odd.end(), row), row);
        }
        if (place != Place::kIndex) return;
        const Key key{record.timestamp, row};
        if (root_.groups.empty()) start_index(key);
        const Found at = find(key);
        Group& group = own(root_.groups[at.group]);
        Block& block = own(group.blocks[at.block]);
        const auto importance = static_cast<float>(record.effective_importance());
        const std::uint16_t code = token_code(record.tokens);
        block.push(key.timestamp, importance, row, code);
        group.summaries[at.block].add(key.timestamp, importance, code, class_of_code(code));
        root_.summaries[at.group].add(key.timestamp, importance, code, class_of_code(code));
        if (block.size() > block_rows_) split_block(at, key);
    }

    void leave_index(std::int64_t row, const Record& record) {
        const Place place = place_of(record);
        if (place == Place::kOdd) {
            auto& odd = own(root_.odd);
            odd.erase(std::lower_bound(odd.begin(), odd.end(), row));
        }
        if (place != Place::kIndex) return;
        const Found at = find({record.timestamp, row});
        Group& group = own(root_.groups[at.group]);
        Block& block = own(group.blocks[at.block]);
        const std::size_t inside = block.find(row);
        const std::uint16_t code = block.tokens[inside];
        const bool narrows = group.summaries[at.block].rests_on(block.timestamp[inside], block.importance[inside], code,
                                                                class_of_code(code));
        block.drop(inside);
        if (block.size() * 4 <= block_rows_) {
            shrink(at);
        } else if (narrows) {
            group.summaries[at.block] = block.summary();
            root_.summaries[at.group] = group.summary();
        }
    }

    void move_in_index(std::int64_t row, const Record& before, const Record& after) {
        const auto importance = static_cast<float>(after.effective_importance());
        const std::uint16_t code = token_code(after.tokens);
        if (place_of(before) != Place::kIndex || place_of(after) != Place::kIndex ||
            before.timestamp != after.timestamp) {
            leave_index(row, before);
            enter_index(row, after);
            return;
        }
        const auto importance_before = static_cast<float>(before.effective_importance());
        if (importance == importance_before && code == token_code(before.tokens)) return;
        const Found at = find({after.timestamp, row});
        Group& group = own(root_.groups[at.group]);
        Block& block = own(group.blocks[at.block]);
        const std::size_t inside = block.find(row);
        const bool narrows = group.summaries[at.block].rests_on(
            std::numeric_limits<double>::quiet_NaN(), block.importance[inside], block.tokens[inside],
            class_of_code(block.tokens[inside]));
        block.importance[inside] = importance;
        block.tokens[inside] = code;
        if (narrows) {
            group.summaries[at.block] = block.summary();
            root_.summaries[at.group] = group.summary();
        } else {
            group.summaries[at.block].add(after.timestamp, importance, code, class_of_code(code));
            root_.summaries[at.group].add(after.timestamp, importance, code, class_of_code(code));
        }
    }

    void start_index(const Key& key) {
        auto group = std::make_shared<Group>();
        group->insert(0, std::make_shared<Block>(), key);
        root_.groups.push_back(std::move(group));
        root_.summaries.emplace_back();
        root_.least.push_back(key);
    }

    // Halves a block; where the new key is the last of all, only that moves on, so that blocks filled in the order of
    // time are full.
    void split_block(const Found& at, const Key& added) {
        Group& group = own(root_.groups[at.group]);
        Block& whole = own(group.blocks[at.block]);
        const std::size_t rows = whole.size();
        const bool last_of_all = at.group + 1 == root_.groups.size() && at.block + 1 == group.blocks.size();
        std::vector<std::uint32_t> order(rows);
        std::iota(order.begin(), order.end(), 0u);
        std::size_t kept = rows / 2;
        const auto by_key = [&whole](std::uint32_t a, std::uint32_t b) { return whole.key(a) < whole.key(b); };
        if (last_of_all && !(added < whole.key(*std::max_element(order.begin(), order.end(), by_key)))) kept = rows - 1;
        std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), by_key);
        const Key first_above = whole.key(order[kept]);
        auto lower = std::make_shared<Block>(), upper = std::make_shared<Block>();
        lower->reserve(kept + 16);
        upper->reserve(rows - kept + 16);
        for (std::size_t i = 0; i < kept; ++i) lower->push(whole, order[i]);
        for (std::size_t i = kept; i < rows; ++i) upper->push(whole, order[i]);
        group.blocks[at.block] = std::move(lower);
        group.summaries[at.block] = group.blocks[at.block]->summary();
        group.insert(at.block + 1, std::move(upper), first_above);
        if (group.blocks.size() <= kGroupBlocks) return;
        const std::size_t stays = last_of_all && at.block + 2 == group.blocks.size() ? group.blocks.size() - 1
                                                                                     : group.blocks.size() / 2;
        insert_group(at.group + 1, group.split(stays));
        root_.summaries[at.group] = group.summary();
    }

    void insert_group(std::size_t at, std::shared_ptr<Group> group) {
        const auto place = static_cast<std::ptrdiff_t>(at);
        root_.least.insert(root_.least.begin() + place, group->least.front());
        root_.summaries.insert(root_.summaries.begin() + place, group->summary());
        root_.groups.insert(root_.groups.begin() + place, std::move(group));
    }

    void erase_group(std::size_t at) {
        const auto place = static_cast<std::ptrdiff_t>(at);
        root_.groups.erase(root_.groups.begin() + place);
        root_.summaries.erase(root_.summaries.begin() + place);
        root_.least.erase(root_.least.begin() + place);
    }

    // A block of few rows joins a neighbour with room for them; an empty one goes, and so does an empty group.
    void shrink(const Found& at) {
        Group& group = own(root_.groups[at.group]);
        const std::size_t rows = group.blocks[at.block]->size();
        bool erased = rows == 0;
        if (!erased) {
            for (const std::size_t other : {at.block + 1, at.block - 1}) {  // before the first wraps around and is none
                if (other >= group.blocks.size() || group.blocks[other]->size() + rows > block_rows_ * 3 / 4) continue;
                Block& joined = own(group.blocks[other]);
                for (std::size_t i = 0; i < rows; ++i) joined.push(*group.blocks[at.block], i);
                if (other > at.block) group.least[other] = group.least[at.block];
                group.summaries[other].add(group.blocks[at.block]->summary());
                erased = true;
                break;
            }
        }
        if (erased) {
            group.erase(at.block);
        } else {
            group.summaries[at.block] = group.blocks[at.block]->summary();
        }
        if (group.blocks.empty()) {
            erase_group(at.group);
            return;
        }
        root_.summaries[at.group] = group.summary();
        if (group.blocks.size() * 4 > kGroupBlocks) return;
        // Groups of few blocks join as well.
        const std::size_t first = at.group + 1 < root_.groups.size() ? at.group : at.group - 1;
        if (first >= root_.groups.size() || first + 1 >= root_.groups.size()) return;
        if (root_.groups[first]->blocks.size() + root_.groups[first + 1]->blocks.size() > kGroupBlocks * 3 / 4) return;
        Group& joined = own(root_.groups[first]);
        const Group& upper = *root_.groups[first + 1];
        joined.blocks.insert(joined.blocks.end(), upper.blocks.begin(), upper.blocks.end());
        joined.summaries.insert(joined.summaries.end(), upper.summaries.begin(), upper.summaries.end());
        const std::size_t seam = joined.least.size();
        joined.least.insert(joined.least.end(), upper.least.begin(), upper.least.end());
        joined.least[seam] = root_.least[first + 1];
        erase_group(first + 1);
        root_.summaries[first] = joined.summary();
    }

    Root& root_;
    std::size_t block_rows_;
};

// --- the index of many rows at once
// -------------------------------------------------------------------------------------

// Sorts keys; rows of equal times keep their order, which is that of rising rows.
inline void sort_keys(std::vector<Key>& keys) {
    if (std::is_sorted(keys.begin(), keys.end())) return;
    // The bits of a float64, turned so that they rise with it (0.0 and -0.0 being one), byte by byte from the lowest.
    struct Turned {
        std::uint64_t bits;
        std::int64_t row;
    };
    constexpr std::uint64_t sign = std::uint64_t{1} << 63;
    std::vector<Turned> from(keys.size()), to(keys.size());
    std::array<std::array<std::size_t, 256>, 8> counts{};
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const double time = keys[i].timestamp + 0.0;
        std::uint64_t bits;
        std::memcpy(&bits, &time, sizeof bits);
        bits = bits & sign ? ~bits : bits | sign;
        from[i] = {bits, keys[i].row};
        for (int byte = 0; byte < 8; ++byte) ++counts[byte][bits >> (8 * byte) & 0xff];
    }
    for (int byte = 0; byte < 8; ++byte) {
        auto& count = counts[byte];
        if (std::find(count.begin(), count.end(), keys.size()) != count.end()) continue;
        std::size_t sum = 0;
        for (std::size_t& one : count) sum += std::exchange(one, sum);
        for (const Turned& one : from) to[count[one.bits >> (8 * byte) & 0xff]++] = one;
        from.swap(to);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::uint64_t bits = from[i].bits & sign ? from[i].bits & ~sign : ~from[i].bits;
        std::memcpy(&keys[i].timestamp, &bits, sizeof bits);
        keys[i].row = from[i].row;
    }
}

inline void Change::rebuild_index() {
    std::vector<Key> keys;
    auto odd = std::make_shared<std::vector<std::int64_t>>();
    keys.reserve(static_cast<std::size_t>(root_.living));
    for (std::size_t number = 0; number < root_.segments.size(); ++number) {
        const auto& chunks = root_.segments[number]->chunks;
        for (std::size_t at = 0; at < chunks.size(); ++at) {
            if (!chunks[at]) continue;
            const auto first =
                static_cast<std::int64_t>(number) * kSegmentRows + static_cast<std::int64_t>(at) * kChunkRows;
            for (std::int64_t i = 0; i < kChunkRows; ++i) {
                const Record& record = chunks[at]->rows[i];
                if (!record.lives()) continue;
                const Place place = place_of(record);
                if (place == Place::kIndex) keys.push_back({record.timestamp, first + i});
                if (place == Place::kOdd) odd->push_back(first + i);
            }
        }
    }
    sort_keys(keys);
    std::vector<std::shared_ptr<Group>> groups;
    std::vector<Summary> summaries;
    std::vector<Key> least;
    for (std::size_t first = 0; first < keys.size(); first += block_rows_) {
        const std::size_t end = std::min(keys.size(), first + block_rows_);
        auto block = std::make_shared<Block>();
        block->reserve(end - first);
        for (std::size_t i = first; i < end; ++i) {
            if (i + 16 < keys.size()) prefetch(&root_.record(keys[i + 16].row));
            const Record& record = root_.record(keys[i].row);
            block->push(record.timestamp, static_cast<float>(record.effective_importance()), keys[i].row,
                        token_code(record.tokens));
        }
        if (groups.empty() || groups.back()->blocks.size() == kGroupBlocks) {
            groups.push_back(std::make_shared<Group>());
            least.push_back(keys[first]);
        }
        Group& group = *groups.back();
        group.insert(group.blocks.size(), std::move(block), keys[first]);
    }
    for (const auto& group : groups) summaries.push_back(group->summary());
    root_.groups.swap(groups);
    root_.summaries.swap(summaries);
    root_.least.swap(least);
    root_.odd.swap(odd);
}

}  // namespace memsel
