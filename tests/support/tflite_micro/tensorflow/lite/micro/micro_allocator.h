// The allocator that an application makes for resource variables: it only hands on the arena.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tflite {
struct MicroAllocator {
  uint8_t* arena;
  size_t size;
  static MicroAllocator* Create(uint8_t* arena, size_t size) {
    static MicroAllocator made;
    made = {arena, size};
    return &made;
  }
};
}  // namespace tflite
