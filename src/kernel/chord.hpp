// An upper bound of a power of two for the price of an addition and a shift; filter.hpp has the proof. Knows no Python.
// Static, so that no linker puts the code of one instruction set in another's place.
#pragma once

#include <cstdint>
#include <cstring>

namespace memsel {

// Adding this leaves a number in fixed point, with 20 binary places, in the low bits of the sum.
constexpr double kFixedPoint = 6442450944.0;  // 1.5 * 2^32
constexpr std::uint64_t kExponentOfOne = std::uint64_t{1023} << 52;

// An upper bound of 2^y, from kFixedPoint + y with y from -1021 to 1024: the chord between powers of two.
static inline double chord_above_power(double fixed_point) {
    std::uint64_t bits;
    std::memcpy(&bits, &fixed_point, sizeof bits);
    bits = (bits << 32) + kExponentOfOne;
    double chord;
    std::memcpy(&chord, &bits, sizeof chord);
    return chord;
}

// What an upper bound of recency is multiplied with: never 0, so that an infinite recency shows whatever its weight;
// and above a denormal weight, which has no room for 2^-18 of itself.
static inline double weight_of_chord(double recency_weight) {
    return (recency_weight > 0.0 ? recency_weight * (1.0 + 0x1p-18) : 0.0) + 1e-300;
}

}  // namespace memsel
