// The filter pass: which rows of a block may still matter. It only ever discards; what it lets through is scored exactly.
// One source, compiled once for each instruction set (filter_level.cpp); the level is chosen when the module is imported.
//
// Why no row that matters is lost. Let u = 2^-53, a = fl(w_rel*relevance), b = fl(w_imp*importance), t = fl(w_rec*recency)
// and c = fl(fl(a + t) + b) the composite; a row matters if c >= bound. Sums of float64 values have no underflow error, so
// |c - (a + t + b)| <= 2.01 u (|a| + |b| + |t|).
//
// The filter computes U = (a + b) + kSlack (|a| + |b|), with kSlack = 16 u, and T, an upper bound of t, and keeps the row
// unless fl(U + T) < cut, with cut = (bound - kSlack |bound|) - 1e-300.
//
// T. 2^y <= 2^floor(y) (1 + y - floor(y)), the chord between powers of two, at most 6.2 % above. The right side is the
// float64 whose bits are (y + 1023) * 2^52 as an integer, so it costs an addition that leaves y in fixed point in the low
// bits, a shift and an integer addition. Rounding y to 2^-20 takes at most 2^-21 of it away, relative, and the rounding of
// the exponent less than 1e-12; T = w_rec (1 + 2^-18) p is therefore at least t (1 + 2^-19), in exact arithmetic as in
// float64. Where w_rec <= 0, t <= 0, and T is next to nothing. y is held to -1021 (2^-1021 is no less than what it stands
// for) and to 1024, where p is infinite: such a row is kept, and exact scoring finds the overflow.
//
// If c >= bound, then a + b >= bound - t - 2.01 u (|a| + |b| + |t|). For t >= 0, T - t >= 2^-19 t outweighs 2.01 u t; a
// negative t only helps. What remains, 2.01 u (|a| + |b|), and the errors of U, of U + T and of the cut (together below
// 9 u (|a| + |b|) + 3 u |bound|, T's own share being covered by its surplus) stay below the slack of U and of the cut. The
// constant covers shares that are themselves denormal. A level may contract a*b + c, which rounds once less; that moves a
// or b by u of itself at most, which is within the same slack.
//
// Rows with U + T infinite upwards or NaN are kept, and so is every row while the cut is NaN. A row whose U is minus infinity
// is dropped unless T is infinite: its composite is minus infinity or NaN, which matters to no bound but minus infinity,
// and the filter is not used with that bound. A row whose recency overflows has an infinite T, so that it is always kept.
#pragma once

#include <cstdint>

namespace memsel {

constexpr double kSlack = 16.0 / 9007199254740992.0;
constexpr int kBlockRows = 512;

struct FilterQuery {
    double relevance_weight;
    double importance_weight;
    double recency_weight;
    double clock;            // seconds since the epoch
    double exponent_rate;    // log2(e) * -(ln 2 / half_life) / 3600: the exponent of 2 per second of age
    bool clamp_future;       // an age below 0 counts as 0
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
