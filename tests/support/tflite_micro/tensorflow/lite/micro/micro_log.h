#pragma once
#include <cstdio>
template <typename... Arguments>
void MicroPrintf(const char* format, Arguments... arguments) {
  std::printf(format, arguments...);
  std::puts("");
}
inline void MicroPrintf(const char* text) { std::puts(text); }
