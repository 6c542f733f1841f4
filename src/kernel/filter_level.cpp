// The filter pass for one instruction set: MEMSEL_LEVEL names it, and the compiler flags beside it make it so.
// Everything here has internal linkage, so that the linker cannot put one level's code in another's place.

#include "chord.hpp"
#include "filter.hpp"

#if defined(_MSC_VER) && !defined(__clang__)
#pragma fp_contract(off)
#endif

namespace memsel {
namespace {

constexpr int kGroupRows = 64;

template <class Relevance, class Importance>
int filter(const FilterQuery& query, const Relevance* relevance, const double* timestamp,
           const Importance* importance, int rows, std::uint16_t* offsets) {
    double highest[kBlockRows];
    const double relevance_weight = query.relevance_weight;
    const double importance_weight = query.importance_weight;
    const double recency_weight = weight_of_chord(query.recency_weight);
    const double clock = query.clock;
    const double rate = query.exponent_rate;
    // An age held to 0 or more holds the exponent to one side of 0.
    const double most = kFixedPoint + (query.clamp_future && rate <= 0.0 ? 0.0 : 1024.0);
    const double least = kFixedPoint - (query.clamp_future && rate > 0.0 ? 0.0 : 1021.0);
    const double bound = query.bound;

    for (int i = 0; i < rows; ++i) {
        const double a = relevance_weight * static_cast<double>(relevance[i]);
        const double b = importance_weight * static_cast<double>(importance[i]);
        double y = kFixedPoint + rate * (clock - timestamp[i]);
        // A NaN becomes the most: a rate of 0 makes one of an infinite age, which clamping may make 0.
        y = y < most ? y : most;
        y = y > least ? y : least;
        highest[i] = (a + recency_weight * chord_above_power(y)) + b;
    }

    int found = 0;
    int first = 0;
    for (; first + kGroupRows <= rows; first += kGroupRows) {
        std::int64_t hits = 0;
        for (int i = first; i < first + kGroupRows; ++i) hits += !(highest[i] < bound);
        if (hits == 0) continue;
        for (int i = first; i < first + kGroupRows; ++i) {
            offsets[found] = static_cast<std::uint16_t>(i);
            found += !(highest[i] < bound);
        }
    }
    for (; first < rows; ++first) {
        offsets[found] = static_cast<std::uint16_t>(first);
        found += !(highest[first] < bound);
    }
    return found;
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
