// A hint to fetch a cache line that will be read soon; a no-op where the compiler has none.
#pragma once

namespace memsel {

inline void prefetch(const void* address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

}  // namespace memsel
