// Which of the compiled filter levels this processor can run.

#include "filter.hpp"

#if defined(MEMSEL_X86_LEVELS) && defined(_MSC_VER) && !defined(__clang__)
#include <immintrin.h>
#include <intrin.h>
#endif

namespace memsel {

extern const FilterLevel kFilter_baseline;
#ifdef MEMSEL_X86_LEVELS
extern const FilterLevel kFilter_avx2;
extern const FilterLevel kFilter_avx512;
#endif

namespace {

#ifdef MEMSEL_X86_LEVELS
#if defined(_MSC_VER) && !defined(__clang__)
// The processor has the instructions and the system saves their registers (XCR0).
int runnable_levels() {
    int leaf[4];
    __cpuid(leaf, 0);
    if (leaf[0] < 7) return 1;
    __cpuid(leaf, 1);
    const int wanted_first = (1 << 12) | (1 << 27) | (1 << 28);  // FMA, OSXSAVE, AVX
    if ((leaf[2] & wanted_first) != wanted_first) return 1;
    const unsigned long long state = _xgetbv(0);
    __cpuidex(leaf, 7, 0);
    if ((state & 0x6) != 0x6 || (leaf[1] & (1 << 5)) == 0) return 1;
    const int wanted = (1 << 16) | (1 << 17) | (1 << 30) | (1 << 31);  // F, DQ, BW, VL
    return (state & 0xe6) == 0xe6 && (leaf[1] & wanted) == wanted ? 3 : 2;
}
#else
int runnable_levels() {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) return 1;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return avx512 ? 3 : 2;
}
#endif
const FilterLevel* const kLevels[] = {&kFilter_baseline, &kFilter_avx2, &kFilter_avx512};
#else
int runnable_levels() { return 1; }
const FilterLevel* const kLevels[] = {&kFilter_baseline};
#endif

}  // namespace

int filter_level_count() { return runnable_levels(); }

const FilterLevel* filter_level(int index) { return kLevels[index]; }

}  // namespace memsel
