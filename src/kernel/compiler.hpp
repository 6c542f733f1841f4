// Which compiler made this build, for reports of measurements. Knows no Python.
#pragma once

#define MEMSEL_COMPILER_TEXT2(a) #a
#define MEMSEL_COMPILER_TEXT(a) MEMSEL_COMPILER_TEXT2(a)

namespace memsel {

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "GCC " __VERSION__;
#elif defined(_MSC_VER)
constexpr const char* kCompiler = "MSVC " MEMSEL_COMPILER_TEXT(_MSC_FULL_VER);
#else
constexpr const char* kCompiler = "unknown compiler";
#endif

}  // namespace memsel
