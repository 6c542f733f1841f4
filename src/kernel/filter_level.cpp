// The filter pass for one instruction set: MEMSEL_LEVEL names it, and the compiler flags beside it make it so.
// Everything here has internal linkage, so that the linker cannot put one level's code in another's place.

#include "filter.hpp"

#include <cmath>
#include <cstring>

namespace memsel {
namespace {

constexpr int kGroupRows = 64;
// With fewer rows than this let through by the plain bound, scoring them exactly costs less than bounding them better.
constexpr int kFewRows = 16;

inline double largest(double a, double b) { return a > b ? a : b; }

// At least 2^y for -inf <= y <= 0 (NaN included), and at most 2^y (1 + 2^-23.6) where y >= -1021.
inline double power_of_two(double y) {
    constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the integer in the low bits
    y = y > -1021.0 ? y : -1021.0;
    const double rounded = y + kRound;
    const double f = y - (rounded - kRound);
    double p = 0x1.5c08e52a3c68cp-10;
    p = p * f + 0x1.3d0c52cd06222p-7;
    p = p * f + 0x1.c6b6e4f96d838p-5;
    p = p * f + 0x1.ebf9174f8f8ebp-3;
    p = p * f + 0x1.62e428c5baa54p-1;
    p = p * f + 0x1.00000133c1285p+0;
    std::uint64_t exponent;
    std::uint64_t bits;
    std::memcpy(&exponent, &rounded, sizeof exponent);
    std::memcpy(&bits, &p, sizeof bits);
    bits += exponent << 52;
    std::memcpy(&p, &bits, sizeof p);
    return p;
}

template <class Relevance, class Importance>
inline double score_without_recency(const FilterQuery& query, Relevance relevance, Importance importance) {
    const double a = query.relevance_weight * static_cast<double>(relevance);
    const double b = query.importance_weight * static_cast<double>(importance);
    return (a + b) + kSlack * (std::fabs(a) + std::fabs(b));
}

inline double cut_for(const FilterQuery& query, double recency_share) {
    const double cut = (query.bound - recency_share) -
                       kSlack * (std::fabs(query.bound) + std::fabs(query.recency_weight)) - 1e-300;
    return cut == cut ? cut : -HUGE_VAL;
}

// Offsets of the values at or above the cut, in order.
inline int offsets_at_or_above(const double* values, int rows, double cut, std::uint16_t* offsets) {
    int found = 0;
    int first = 0;
    for (; first + kGroupRows <= rows; first += kGroupRows) {
        std::int64_t hits = 0;
        for (int i = 0; i < kGroupRows; ++i) hits += values[first + i] >= cut;
        if (hits == 0) continue;
        for (int i = first; i < first + kGroupRows; ++i) {
            offsets[found] = static_cast<std::uint16_t>(i);
            found += values[i] >= cut;
        }
    }
    for (; first < rows; ++first) {
        offsets[found] = static_cast<std::uint16_t>(first);
        found += values[first] >= cut;
    }
    return found;
}

template <class Relevance, class Importance>
int filter(const FilterQuery& query, const Relevance* relevance, const double* timestamp,
           const Importance* importance, int rows, std::uint16_t* offsets) {
    double values[kBlockRows + 1];
    const double cut = cut_for(query, largest(query.recency_weight, 0.0));
    const double now = query.now;
    for (int i = 0; i < rows; ++i) {
        const double value = score_without_recency(query, relevance[i], importance[i]);
        values[i] = timestamp[i] > now ? HUGE_VAL : value;
    }
    const int found = offsets_at_or_above(values, rows, cut, offsets);
    if (found <= kFewRows) return found;

    const double share = largest(query.recency_weight, 0.0) * (1.0 + 0x1p-21);
    const double rate = query.exponent_rate;
    const double clock = query.clock;
    const double closer_cut = cut_for(query, 0.0);
    for (int i = 0; i < rows; ++i) {
        const double y = rate * (clock - timestamp[i]);
        values[i] += share * power_of_two(y < 0.0 ? y : 0.0);
    }
    return offsets_at_or_above(values, rows, closer_cut, offsets);
}

}  // namespace

#define MEMSEL_JOIN2(a, b) a##b
#define MEMSEL_JOIN(a, b) MEMSEL_JOIN2(a, b)
#define MEMSEL_TEXT2(a) #a
#define MEMSEL_TEXT(a) MEMSEL_TEXT2(a)

extern const FilterLevel MEMSEL_JOIN(kFilter_, MEMSEL_LEVEL);
const FilterLevel MEMSEL_JOIN(kFilter_, MEMSEL_LEVEL) = {
    MEMSEL_TEXT(MEMSEL_LEVEL),
    &filter<double, double>,
    &filter<float, double>,
    &filter<double, float>,
    &filter<float, float>,
};

}  // namespace memsel
