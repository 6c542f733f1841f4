// The filter pass: which rows of a block may still matter. It only ever discards; what it lets through is scored
// exactly. One source, compiled once for each instruction set (filter_level.cpp); the level is chosen when the module
// is imported.
//
// Why no row that matters is lost. Let a = fl(w_rel*relevance), b = fl(w_imp*importance), t = fl(w_rec*recency) and c =
// fl(fl(a + t) + b) the composite; a row matters if c >= bound. The filter computes the same a and b, an upper bound T
// of t, and F = fl(fl(a + T) + b), in this order and without contraction. Rounding never turns an order round: from T
// >= t follows fl(a + T) >= fl(a + t), and so F >= c >= bound, whatever the magnitudes, overflows and denormals
// included. A row is dropped if F < bound; a NaN is not. (If c is no NaN but F is, an infinity stands in it.)
//
// T = fl(w*p), with p from an upper bound of 2^y and y = rate * age the exponent of recency in base 2. Rounding being
// monotone here as well, w*p >= w_rec*recency in exact arithmetic is enough.
//
// p. 2^y <= 2^floor(y) (1 + y - floor(y)), the chord between powers of two, at most 6.2 % above. The right side is the
// float64 whose bits are (y + 1023) * 2^52 as an integer, so it costs an addition that leaves y in fixed point in the
// low bits, a shift and an integer addition. Rounding y to a multiple of 2^-20 takes at most 2^-21 of p away, relative,
// since no slope of the chord is above its value. y and the exponent that exact scoring uses are each rounded a few
// times: of |y| <= 1025 they lose less than 1e-12, be it that a factor is denormal (the other one is then small enough
// or the age is large enough for the loss to stay below 1e-15). exp is wrong by less than 1e-15 of itself. So p >=
// recency (1 - 2^-20). y is held to -1021, where p = 2^-1021 is no less than the recency it stands for, and to 1024,
// where p is infinite: such a row is kept, and exact scoring finds the overflow. A NaN of y is held to the higher end:
// where clamping makes an infinite age 0, the composite need not be NaN.
//
// w. For w_rec > 0 it is fl(fl(w_rec (1 + 2^-18)) + 1e-300), which is at least w_rec (1 + 2^-19): a denormal w_rec has
// no room for so small a share of itself, and 1e-300 is more than that. So w*p >= w_rec (1 + 2^-19) (1 - 2^-20)
// recency, and that is above w_rec*recency. For w_rec <= 0, t <= 0 or NaN, and w is 1e-300: next to nothing, yet not 0
// * infinity.
//
// A row whose recency overflows has an infinite p and T, and F is infinite or NaN: it is always kept.
#pragma once

#include <cstdint>

#include "scoring.hpp"

namespace memsel {

constexpr int kBlockRows = 512;

struct FilterQuery {
    double relevance_weight;
    double importance_weight;
    double recency_weight;
    double clock;            // seconds since the epoch
    double exponent_rate;    // -(ln 2 / half_life) / 3600 * log2(e): the exponent of 2 per second of age
    bool clamp_future;       // an age below 0 counts as 0
    double bound;            // rows whose composite is below do not matter; not minus infinity
};

// Fills in everything but the bound. In this order, the product is finite where minus_lambda is.
inline void use_scoring(FilterQuery& query, const Scoring& scoring) {
    constexpr double log2_e = 1.4426950408889634;
    query.relevance_weight = scoring.relevance_weight;
    query.importance_weight = scoring.importance_weight;
    query.recency_weight = scoring.recency_weight;
    query.clock = scoring.now;
    query.exponent_rate = scoring.minus_lambda / 3600.0 * log2_e;
    query.clamp_future = scoring.clamp_future;
}

// Writes the offsets, within the block, of the rows that may matter; returns how many. `rows` is at most kBlockRows.
template <class Relevance, class Importance>
using Filter = int (*)(const FilterQuery& query, const Relevance* relevance, const double* timestamp,
                       const Importance* importance, int rows, std::uint16_t* offsets);

struct FilterLevel {
    const char* name;
    Filter<double, double> f64_f64;
    Filter<float, double> f32_f64;
    Filter<double, float> f64_f32;
    Filter<float, float> f32_f32;
};

// The levels that this build holds and this processor runs, the plainest first.
int filter_level_count();
const FilterLevel* filter_level(int index);

}  // namespace memsel
