// Seconds on a clock that never goes back, for slices of work; not for timestamps. Knows no Python.
#pragma once

#include <chrono>

namespace memsel {

inline double monotonic_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace memsel
