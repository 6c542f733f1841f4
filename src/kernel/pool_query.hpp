// A selection from a pool: the rows with a score first, then block after block of the others, the most promising first,
// until none is left that could hold a row that matters. Knows no Python.
//
// Rows without a score share one relevance, 0.5, so that an upper bound of a block's composites follows from its
// largest upper bound of recency and its largest importance. It is computed as the filter computes a row's (filter.hpp)
// and holds for the same reason: the same operations in the same order on values that are nowhere smaller. Blocks whose
// bound equals the worst score still wanted are opened, since equal scores go by row.
//
// Where the bounds cannot be trusted, the caller scans: weights, clock or rate that are no finite numbers, and a pool
// where some recency may overflow.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "chord.hpp"
#include "columns.hpp"
#include "filter.hpp"
#include "packing.hpp"
#include "pool_store.hpp"
#include "pool_tree.hpp"
#include "prefetch.hpp"

namespace memsel {

constexpr double kUnscoredRelevance = 0.5;

// Scores beside row numbers. Of a row that occurs twice the last score counts; rows that there are not are left out.
struct Hits {
    const std::int64_t* rows = nullptr;
    const double* scores = nullptr;
    std::int64_t count = 0;
};

// Which of a query's hits belongs to a row: a table of positions, hashed by row.
class HitTable {
public:
    void start(std::int64_t members) {
        std::size_t slots = 16;
        bits_ = 4;
        while (slots < 2 * static_cast<std::size_t>(members)) {
            slots *= 2;
            ++bits_;
        }
        slots_.assign(slots, Slot{-1, 0});
        mask_ = slots - 1;
    }
    // The place for the row's position; a new row gets the one given.
    std::int64_t& position(std::int64_t row, std::int64_t if_new) {
        std::size_t at = first_slot(row);
        while (slots_[at].row != row && slots_[at].row >= 0) at = (at + 1) & mask_;
        if (slots_[at].row < 0) slots_[at] = {row, if_new};
        return slots_[at].position;
    }
    // The row's position, or -1.
    std::int64_t find(std::int64_t row) const {
        std::size_t at = first_slot(row);
        while (slots_[at].row != row && slots_[at].row >= 0) at = (at + 1) & mask_;
        return slots_[at].row < 0 ? -1 : slots_[at].position;
    }

private:
    struct Slot {
        std::int64_t row;
        std::int64_t position;
    };
    std::size_t first_slot(std::int64_t row) const {
        return static_cast<std::size_t>(static_cast<std::uint64_t>(row) * 0x9e3779b97f4a7c15u >> (64 - bits_));
    }

    std::vector<Slot> slots_;
    std::size_t mask_ = 0;
    int bits_ = 4;
};

// Keeps the first `capacity` rows, in the order of a selection, of rows offered in any order.
class BestOfAny {
public:
    void start(std::int64_t capacity, double threshold) {
        capacity_ = static_cast<std::size_t>(capacity);
        threshold_ = threshold;
        rows_.clear();
    }
    // No row whose score is below the bound can enter; one whose score equals it may.
    double bound() const { return full() ? rows_.front().score : threshold_; }
    bool admits(const Ranked& one) const { return full() ? before(one, rows_.front()) : one.score >= threshold_; }
    // `one` is admitted.
    void offer(const Ranked& one) {
        if (full()) {
            std::pop_heap(rows_.begin(), rows_.end(), Before{});
            rows_.back() = one;
        } else {
            rows_.push_back(one);
        }
        std::push_heap(rows_.begin(), rows_.end(), Before{});
    }
    // The rows held, in order.
    const std::vector<Ranked>& finish() {
        std::sort_heap(rows_.begin(), rows_.end(), Before{});
        return rows_;
    }

private:
    bool full() const { return rows_.size() == capacity_; }

    std::vector<Ranked> rows_;
    std::size_t capacity_ = 1;
    double threshold_ = 0.0;
};

// What a query left behind, for the caller to take.
struct PoolAnswer {
    std::vector<KeptRow> kept;
    std::uint64_t tokens_low = 0;
    std::uint64_t tokens_high = 0;

    void count(std::uint64_t tokens) {
        tokens_low += tokens;
        tokens_high += tokens_low < tokens;
    }
};

// One query's work; used again by the next query of the same thread, for the memory it holds.
class PoolQuery {
public:
    // Selects from a state of the pool; false where the bounds cannot be trusted and nothing was selected.
    bool run(const Root& root, const Settings& settings, const FilterLevel& level, const Hits& hits,
             PoolAnswer& answer) {
        if (hits.count > std::max(kManyHits, root.living / kLeastShare)) return false;
        if (!start(root, settings, level) || !score_hits(hits)) return false;
        Walk walk;
        start_walk(walk, settings, root.living);
        if (walk.admission.capacity > std::max<std::int64_t>(kFewRows, root.living / kLeastShare)) return false;
        for (;;) {
            if (!rank(walk.admission)) return false;
            const std::vector<Ranked>& ranked = best_.finish();
            std::int64_t taken = 0;
            for (const Ranked& one : ranked) {
                if (walk.room <= 0 || walk.stopped) return true;
                const Record& record = root.record(one.row);
                if (!takes(walk, one, static_cast<std::uint64_t>(record.tokens))) continue;
                keep(one, record, answer);
                ++taken;
            }
            if (!goes_on(walk, ranked, root.living) || !only_fitting_from_now(walk)) return true;
            // Where rows are left out for their tokens, the fewer are wanted, the sooner a pass ends; its first row
            // fits.
            if (walk.admission.only_fitting) {
                walk.admission.capacity = std::min(std::max<std::int64_t>(kFewFitting, 2 * taken), walk.room);
            }
        }
    }

private:
    // A pass that wants more rows than one in so many is quicker without the index.
    static constexpr std::int64_t kLeastShare = 16;
    static constexpr std::int64_t kFewRows = 1024;
    static constexpr std::int64_t kManyHits = 65536;
    static constexpr std::int64_t kFewFitting = 2;
    // Rows of a block that are filtered together: few, since the bound rises with what each piece offers.
    static constexpr int kPieceRows = 64;
    static_assert(kPieceRows <= kBlockRows, "the filter takes no more");
    // Rows whose memory is asked for together.
    static constexpr std::int64_t kTogether = 64;
    // Exponents of two from here on may mean a recency beyond float64.
    static constexpr double kHighExponent = 1000.0;

    struct Scored {
        double score;
        std::int64_t row;
        double relevance;
        std::int64_t tokens;
    };

    // A group, or a block of one, that has not been looked into.
    struct Sealed {
        double bound;
        std::int32_t group;
        std::int32_t block;  // -1: the group itself
        bool exact;          // the bound comes from the exponential itself

        bool operator<(const Sealed& other) const { return bound < other.bound; }
    };

    bool start(const Root& root, const Settings& settings, const FilterLevel& level) {
        const Scoring& scoring = settings.scoring;
        root_ = &root;
        settings_ = &settings;
        level_ = &level;
        use_scoring(query_, scoring);
        unscored_ = scoring.relevance_weight * kUnscoredRelevance;
        chord_weight_ = weight_of_chord(scoring.recency_weight);
        const double numbers[] = {scoring.relevance_weight, scoring.recency_weight, scoring.importance_weight,
                                  scoring.minus_lambda,     scoring.now,            query_.exponent_rate};
        for (const double number : numbers) {
            if (!std::isfinite(number)) return false;
        }
        if (std::isnan(settings.min_score) || !(std::fabs(scoring.now) <= 1e15)) return false;
        for (const Summary& summary : root.summaries) {
            if (!(exponent(summary) < kHighExponent)) return false;
        }
        return true;
    }

    // The highest exponent of two of any row.
    double exponent(const Summary& summary) const {
        const double of_newest = query_.exponent_rate * (query_.clock - summary.newest);
        const double of_oldest = query_.exponent_rate * (query_.clock - summary.oldest);
        double highest = std::max(of_newest, of_oldest);
        // An age held to 0 or more holds the exponent to one side of 0.
        if (query_.clamp_future) {
            highest = query_.exponent_rate <= 0.0 ? std::min(highest, 0.0) : std::max(highest, 0.0);
        }
        return highest;
    }

    // An upper bound of the composites of rows without a score, of those that the admission lets in; minus infinity
    // where there is none.
    double bound_of(const Summary& summary, const Admission& admission) const {
        float most = summary.most_importance;
        if (admission.only_fitting) {
            if (summary.fewest_tokens > most_code_) return -std::numeric_limits<double>::infinity();
            if (class_ < kTokenClasses) most = summary.most_by_class[class_];
            if (most == Summary::kNone) return -std::numeric_limits<double>::infinity();
        }
        const double y = std::min(std::max(exponent(summary), -1021.0), 1024.0);
        return bound_with(chord_weight_ * chord_above_power(kFixedPoint + y), most, summary.least_importance);
    }

    // The same with the exponential of the exact pass, whose error is far below the share added.
    double exact_bound_of(const Summary& summary, const Admission& admission) const {
        float most = summary.most_importance;
        if (admission.only_fitting && class_ < kTokenClasses) most = summary.most_by_class[class_];
        const double highest = std::exp2(std::max(exponent(summary), -1021.0)) * (1.0 + 0x1p-30);
        const double weight = settings_->scoring.recency_weight;
        return bound_with((weight > 0.0 ? weight * highest : 0.0) + 1e-300, most, summary.least_importance);
    }

    double bound_with(double recency_share, float most, float least) const {
        const double weight = settings_->scoring.importance_weight;
        // Back from the nearest float32 to what is no smaller, or no larger, than any importance it stands for.
        const double extreme = weight >= 0.0 ? most + (std::fabs(most) * 0x1p-22 + 1e-44)
                                             : least - (std::fabs(least) * 0x1p-22 + 1e-44);
        const double bound = (unscored_ + recency_share) + weight * extreme;
        return std::isnan(bound) ? std::numeric_limits<double>::infinity() : bound;
    }

    // Scores the hits and the odd rows exactly; false where a recency overflows.
    bool score_hits(const Hits& hits) {
        scored_.clear();
        table_.start(hits.count + static_cast<std::int64_t>(root_->odd->size()));
        hit_rows_.clear();
        for (std::int64_t i = 0; i < hits.count; ++i) {
            if (i % kTogether == 0) {
                // Each step asks for the memory that the next one reads.
                const std::int64_t end = std::min(i + kTogether, hits.count);
                for (std::int64_t at = i; at < end; ++at) fetch_chunk(hits.rows[at]);
                for (std::int64_t at = i; at < end; ++at) fetch_record(hits.rows[at]);
            }
            const std::int64_t row = hits.rows[i];
            if (!root_->record(row).lives()) continue;
            std::int64_t& position = table_.position(row, static_cast<std::int64_t>(hit_rows_.size()));
            if (position == static_cast<std::int64_t>(hit_rows_.size())) {
                hit_rows_.push_back({0.0, row, hits.scores[i], 0});
            } else {
                hit_rows_[static_cast<std::size_t>(position)].relevance = hits.scores[i];
            }
        }
        for (const std::int64_t row : *root_->odd) {
            if (table_.find(row) >= 0) continue;
            table_.position(row, static_cast<std::int64_t>(hit_rows_.size()));
            hit_rows_.push_back({0.0, row, kUnscoredRelevance, 0});
        }
        for (Scored& hit : hit_rows_) {
            const Record& record = root_->record(hit.row);
            double recency;
            if (!score_row(settings_->scoring, hit.relevance, record.timestamp, record.effective_importance(), recency,
                           hit.score)) {
                return false;
            }
            hit.tokens = record.tokens;
            if (hit.score >= settings_->min_score) scored_.push_back(hit);
        }
        return true;
    }

    void fetch_chunk(std::int64_t row) const {
        if (row < 0 || row >= root_->next_row) return;
        prefetch(root_->chunk_of(row));
    }
    void fetch_record(std::int64_t row) const {
        const Record& record = root_->record(row);
        prefetch(&record);
        prefetch(&record.tokens);
    }

    static bool lies_behind(const Admission& admission, const Ranked& one) {
        return !admission.only_behind || before({admission.last_score, admission.last_row}, one);
    }

    // The best rows of one pass, into best_; false where a recency overflows.
    bool rank(const Admission& admission) {
        best_.start(admission.capacity, settings_->min_score);
        if (admission.only_fitting) {
            class_ = token_class(admission.most_tokens);
            most_code_ = token_code(admission.most_tokens);
        }
        for (const Scored& hit : scored_) {
            if (admission.only_fitting && hit.tokens > admission.most_tokens) continue;
            const Ranked one{hit.score, hit.row};
            if (best_.admits(one) && lies_behind(admission, one)) best_.offer(one);
        }
        sealed_.clear();
        for (std::size_t group = 0; group < root_->groups.size(); ++group) {
            seal(root_->summaries[group], admission, static_cast<std::int32_t>(group), -1);
        }
        std::make_heap(sealed_.begin(), sealed_.end());
        while (!sealed_.empty() && !(sealed_.front().bound < best_.bound())) {
            std::pop_heap(sealed_.begin(), sealed_.end());
            Sealed first = sealed_.back();
            sealed_.pop_back();
            const Group& group = *root_->groups[static_cast<std::size_t>(first.group)];
            if (!first.exact) {
                const Summary& summary = first.block < 0 ? root_->summaries[static_cast<std::size_t>(first.group)]
                                                         : group.summaries[static_cast<std::size_t>(first.block)];
                first.bound = std::min(first.bound, exact_bound_of(summary, admission));
                first.exact = true;
                if (!sealed_.empty() && first < sealed_.front()) {
                    sealed_.push_back(first);
                    std::push_heap(sealed_.begin(), sealed_.end());
                    continue;
                }
                if (first.bound < best_.bound()) break;
            }
            if (first.block >= 0) {
                const auto number = static_cast<std::size_t>(first.block);
                if (!open(*group.blocks[number], group.summaries[number], admission)) return false;
                continue;
            }
            for (std::size_t block = 0; block < group.blocks.size(); ++block) {
                const std::size_t sealed = sealed_.size();
                seal(group.summaries[block], admission, first.group, static_cast<std::int32_t>(block));
                if (sealed_.size() > sealed) std::push_heap(sealed_.begin(), sealed_.end());
            }
        }
        return true;
    }

    void seal(const Summary& summary, const Admission& admission, std::int32_t group, std::int32_t block) {
        const double bound = bound_of(summary, admission);
        if (!(bound < best_.bound())) sealed_.push_back({bound, group, block, false});
    }

    // Offers the rows of a block that may matter and have no score of their own; false where a recency overflows.
    bool open(const Block& block, const Summary& summary, const Admission& admission) {
        const Scoring& scoring = settings_->scoring;
        const double largest = std::max(std::fabs(summary.most_importance), std::fabs(summary.least_importance));
        // The block's importances are float32, and what that changes in a composite comes off the bound.
        const double blur = std::fabs(scoring.importance_weight) * (largest * 0x1p-22 + 1e-44) + 1e-300;
        double last_timestamp = std::numeric_limits<double>::quiet_NaN(), recency = 0.0;
        std::uint16_t offsets[kPieceRows];
        const auto rows = static_cast<int>(block.size());
        for (int first = 0; first < rows; first += kPieceRows) {
            const int count = std::min(kPieceRows, rows - first);
            int found = 0;
            const double bound = best_.bound();
            if (bound > -std::numeric_limits<double>::infinity()) {
                query_.bound = bound - (blur + 0x1p-50 * std::fabs(bound));
                found = level_->f64_f32(query_, unscored_relevances(), block.timestamp.data() + first,
                                        block.importance.data() + first, count, offsets);
            } else {
                for (; found < count; ++found) offsets[found] = static_cast<std::uint16_t>(found);
            }
            for (int i = 0; i < found; ++i) {
                if (i % kTogether == 0) {
                    const int end = std::min(i + static_cast<int>(kTogether), found);
                    for (int next = i; next < end; ++next) fetch_chunk(block.row(block_place(first, offsets[next])));
                    for (int next = i; next < end; ++next) fetch_record(block.row(block_place(first, offsets[next])));
                }
                const std::size_t at = block_place(first, offsets[i]);
                if (admission.only_fitting && block.tokens[at] > most_code_) continue;
                const std::int64_t row = block.row(at);
                const Record& record = root_->record(row);
                if (admission.only_fitting && record.tokens > admission.most_tokens) continue;
                if (record.timestamp != last_timestamp) {
                    // Equal times stand together where rows are ties; their exponential is then taken once.
                    if (!recency_of(scoring, record.timestamp, recency)) return false;
                    last_timestamp = record.timestamp;
                }
                const double importance = record.effective_importance();
                const Ranked one{composite_of(scoring, kUnscoredRelevance, recency, importance), row};
                if (best_.admits(one) && lies_behind(admission, one) && table_.find(row) < 0) best_.offer(one);
            }
        }
        return true;
    }

    static std::size_t block_place(int first, std::uint16_t offset) { return static_cast<std::size_t>(first + offset); }

    static const double* unscored_relevances() {
        static const std::vector<double> values(kPieceRows, kUnscoredRelevance);
        return values.data();
    }

    void keep(const Ranked& one, const Record& record, PoolAnswer& answer) const {
        KeptRow kept;
        const std::int64_t position = table_.find(one.row);
        kept.row = one.row;
        kept.relevance =
            position < 0 ? kUnscoredRelevance : hit_rows_[static_cast<std::size_t>(position)].relevance;
        kept.importance = record.effective_importance();
        kept.composite = one.score;
        recency_of(settings_->scoring, record.timestamp, kept.recency);
        answer.kept.push_back(kept);
        answer.count(static_cast<std::uint64_t>(record.tokens));
    }

    const Root* root_ = nullptr;
    const Settings* settings_ = nullptr;
    const FilterLevel* level_ = nullptr;
    FilterQuery query_{};
    double unscored_ = 0.0;
    double chord_weight_ = 0.0;
    int class_ = 0;
    std::uint16_t most_code_ = 0;
    HitTable table_;
    std::vector<Scored> hit_rows_;
    std::vector<Scored> scored_;  // those that reach the minimum
    std::vector<Sealed> sealed_;
    BestOfAny best_;
};

// The query whose memory this thread uses again.
inline PoolQuery& query_of_thread() {
    static thread_local PoolQuery query;
    return query;
}

// The living rows of a state, or some of them, as columns for a scan; in the order of rows.
struct PoolColumns {
    std::vector<double> relevance;
    std::vector<double> timestamp;
    std::vector<double> importance;
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> rows;

    // `candidates`: rows that rise, or null for all.
    void gather(const Root& root, const std::vector<std::int64_t>* candidates, bool from_access, const Hits& hits) {
        clear();
        if (candidates != nullptr) {
            for (const std::int64_t row : *candidates) add(root.record(row), row, from_access);
        } else {
            reserve(static_cast<std::size_t>(root.living));
            for (std::size_t number = 0; number < root.segments.size(); ++number) {
                if (!root.segments[number]) continue;
                const auto& chunks = root.segments[number]->chunks;
                for (std::size_t at = 0; at < chunks.size(); ++at) {
                    if (!chunks[at]) continue;
                    const auto first =
                        static_cast<std::int64_t>(number) * kSegmentRows + static_cast<std::int64_t>(at) * kChunkRows;
                    for (std::int64_t i = 0; i < kChunkRows; ++i) add(chunks[at]->rows[i], first + i, from_access);
                }
            }
        }
        relevance.assign(rows.size() + 1, kUnscoredRelevance);
        for (std::int64_t i = 0; i < hits.count; ++i) {
            const std::size_t at = position_of_row(hits.rows[i]);
            if (at < rows.size()) relevance[at] = hits.scores[i];
        }
    }
    Columns columns() const {
        Columns made;
        made.relevance = relevance.data();
        made.timestamp = timestamp.data();
        made.importance = importance.data();
        // Also where there are no rows: the pool has a column of tokens.
        static const std::int64_t none = 0;
        made.tokens = tokens.empty() ? &none : tokens.data();
        made.rows = static_cast<std::int64_t>(rows.size());
        return made;
    }

private:
    // Where a row stands among those gathered, or a number past them all.
    std::size_t position_of_row(std::int64_t row) const {
        if (rows.empty() || row < rows.front() || row > rows.back()) return rows.size();
        // Where no row is missing, it stands as far from the first as its number says.
        const auto guess = static_cast<std::size_t>(row - rows.front());
        if (guess < rows.size() && rows[guess] == row) return guess;
        const auto at = std::lower_bound(rows.begin(), rows.end(), row);
        return *at == row ? static_cast<std::size_t>(at - rows.begin()) : rows.size();
    }
    void clear() {
        timestamp.clear();
        importance.clear();
        tokens.clear();
        rows.clear();
    }
    void reserve(std::size_t count) {
        timestamp.reserve(count);
        importance.reserve(count);
        tokens.reserve(count);
        rows.reserve(count);
    }
    void add(const Record& record, std::int64_t row, bool from_access) {
        if (!record.lives()) return;
        timestamp.push_back(from_access ? record.last_access : record.timestamp);
        importance.push_back(record.effective_importance());
        tokens.push_back(record.tokens);
        rows.push_back(row);
    }
};

// One query over one state: its hits and candidates, and what came of it.
struct PoolTask {
    Snapshot snapshot;
    std::vector<std::int64_t> rows;  // the hits
    std::vector<double> scores;
    bool restricted = false;         // to the candidates
    std::vector<std::int64_t> candidates;
    PoolAnswer answer;
    std::int64_t overflowed = -1;    // the row whose recency overflows
    double overflowed_timestamp = 0.0;

    const Root& root() const { return *snapshot; }
    std::int64_t living() const {
        return restricted ? static_cast<std::int64_t>(candidates.size()) : root().living;
    }
    Hits hits() const { return {rows.data(), scores.data(), static_cast<std::int64_t>(rows.size())}; }

    // Puts the candidates in order and leaves out those that are not there.
    void restrict_to_living() {
        restricted = true;
        std::sort(candidates.begin(), candidates.end());
        const auto dead = [this](std::int64_t row) { return !root().record(row).lives(); };
        candidates.erase(std::remove_if(candidates.begin(), candidates.end(), dead), candidates.end());
        candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    }
};

}  // namespace memsel
