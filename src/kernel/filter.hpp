// The filter pass: which rows of a block may still matter. It only ever discards; what it lets through is scored exactly.
// One source, compiled once for each instruction set (filter_level.cpp); the level is chosen when the module is imported.
//
// Why no row that matters is lost. Let u = 2^-53, a = fl(w_rel*relevance), b = fl(w_imp*importance), t = fl(w_rec*recency)
// and c = fl(fl(a + t) + b) the composite. Then |c - (a + t + b)| <= 2.01 u (|a| + |b| + |t|), denormals included, since
// a sum of float64 values has no underflow error. A row matters if c >= bound. With T >= t an upper bound of the
// recency's share, such a row has
//     a + b >= bound - T - 2.01 u (|a| + |b| + |T|).
// The filter computes U = (a + b) + kSlack (|a| + |b|), with kSlack = 16 u, in float64, with an error below
// 5 u (|a| + |b|), and keeps the row if U >= cut, cut = (bound - T) - kSlack (|bound| + |w_rec|) - 1e-300. The slack of U
// covers its own error and the composite's, that of the cut covers the rounding of the cut and the share of t, for |t| <= |w_rec|, and the
// constant covers a recency's share that is itself denormal. A sum that overflows upwards is kept. U is NaN only where the
// row has a NaN, infinities of both signs, or a sum of minus infinity: the composite is then NaN, which never matters, or
// minus infinity, which matters to no bound but minus infinity. The filter is not used with that bound.
//
// T without an exponential: recency is at most 1 for a timestamp up to now (or any, where the future is clamped), so
// T = max(w_rec, 0). Rows ahead of now are always let through.
// T with one: the polynomial below is within 2^-23.6 of 2^f, relative, and the rounding of its argument adds less than
// 1e-12, so T = w_rec (1 + 2^-21) p leaves room for the rounding of every step.
#pragma once

#include <cstdint>

namespace memsel {

constexpr double kSlack = 16.0 / 9007199254740992.0;
constexpr int kBlockRows = 512;

struct FilterQuery {
    double relevance_weight;
    double importance_weight;
    double recency_weight;
    double now;              // +inf where the future is clamped: then no row is ahead of it
    double clock;            // seconds since the epoch
    double exponent_rate;    // log2(e) * -(ln 2 / half_life) / 3600: the exponent of 2 per second of age; 0 or less
    double bound;            // rows whose composite is below do not matter; not minus infinity
};

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
