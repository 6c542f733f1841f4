// Packing: what a call may keep, and where a walk along the order of rows stands. Knows no Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "order.hpp"
#include "scoring.hpp"

namespace memsel {

// Rows ranked before it is known how many the budget takes, and how that grows when it takes more.
constexpr std::int64_t kFirstCapacity = 256;
constexpr std::int64_t kCapacityGrowth = 8;

struct Budget {
    bool unlimited;
    bool nothing_fits;  // a negative budget
    std::uint64_t left_high;  // whole tokens in two halves, since sums of int64 may pass 2^63
    std::uint64_t left_low;
};

// The settings of one call.
struct Settings {
    Scoring scoring;
    double min_score;
    std::int64_t top_k;  // how many rows reach the limit; the largest int64 = none does
    Budget budget;
    bool stops_at_overflow;
};

inline bool fits(const Budget& budget, std::uint64_t tokens) {
    if (budget.unlimited) return true;
    return !budget.nothing_fits && (budget.left_high > 0 || tokens <= budget.left_low);
}

// Takes tokens that fit off what is left.
inline void spend(Budget& budget, std::uint64_t tokens) {
    if (budget.unlimited) return;
    if (tokens > budget.left_low) budget.left_high -= 1;
    budget.left_low -= tokens;
}

// Which rows one pass over all rows lets in.
struct Admission {
    std::int64_t capacity;  // how many rows the pass keeps
    bool only_behind;       // only rows behind `last` in the order
    double last_score;
    std::int64_t last_row;
    bool only_fitting;      // only rows of at most `most_tokens`
    std::int64_t most_tokens;
};

// Admission of any row, for a pass that keeps up to `capacity` of them, and at least one.
inline Admission everything(std::int64_t capacity) {
    return {std::max<std::int64_t>(1, capacity), false, 0.0, -1, false, 0};
}

struct Walk {
    Admission admission;
    Budget budget;
    std::int64_t room;  // how many more rows may be kept
    bool stops_at_overflow;
    bool stopped;       // a row did not fit, and the walk ends there
    double last_score;  // of the last row looked at
    std::int64_t last_row;
};

inline void start_walk(Walk& walk, const Settings& settings, std::int64_t rows) {
    walk.admission = everything(std::min(settings.top_k, rows));
    walk.budget = settings.budget;
    walk.room = settings.top_k;
    walk.stops_at_overflow = settings.stops_at_overflow;
    walk.stopped = false;
    walk.last_score = std::numeric_limits<double>::infinity();
    walk.last_row = -1;
    // How many rows it takes to use the budget up is not known yet.
    if (!walk.budget.unlimited) walk.admission.capacity = std::min(walk.admission.capacity, kFirstCapacity);
}

// Looks at the next row in the order; whether it is kept.
inline bool takes(Walk& walk, const Ranked& ranked, std::uint64_t tokens) {
    walk.last_score = ranked.score;
    walk.last_row = ranked.row;
    if (fits(walk.budget, tokens)) {
        spend(walk.budget, tokens);
        walk.room -= 1;
        return true;
    }
    walk.stopped = walk.stops_at_overflow;
    return false;
}

// Whether rows behind the ranked ones are wanted and may exist; the admission is then the next pass's.
inline bool goes_on(Walk& walk, const std::vector<Ranked>& ranked, std::int64_t rows) {
    if (walk.room <= 0 || walk.stopped) return false;
    if (static_cast<std::int64_t>(ranked.size()) < walk.admission.capacity) return false;
    walk.admission.only_behind = true;
    walk.admission.last_score = ranked.back().score;
    walk.admission.last_row = ranked.back().row;
    walk.admission.capacity = std::min(walk.admission.capacity * kCapacityGrowth, rows);
    return true;
}

// Lets the next pass leave out what does not fit any more, which never will; false where nothing can fit.
inline bool only_fitting_from_now(Walk& walk) {
    if (walk.stops_at_overflow || walk.budget.unlimited) return true;
    if (walk.budget.nothing_fits) return false;
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    walk.admission.only_fitting = walk.budget.left_high == 0 && walk.budget.left_low < most;
    walk.admission.most_tokens = static_cast<std::int64_t>(walk.budget.left_low);
    return true;
}

}  // namespace memsel
