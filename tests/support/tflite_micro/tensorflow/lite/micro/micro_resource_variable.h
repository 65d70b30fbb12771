#pragma once
#include "tensorflow/lite/micro/micro_allocator.h"

namespace tflite {
struct MicroResourceVariables {
  int count;
  static MicroResourceVariables* Create(MicroAllocator*, int count) {
    static MicroResourceVariables made;
    made = {count};
    return &made;
  }
};
}  // namespace tflite
