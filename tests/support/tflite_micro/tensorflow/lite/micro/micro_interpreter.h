// An interpreter whose inference is done elsewhere: it writes its input to a file and reads its output from one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "tensorflow/lite/micro/micro_allocator.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/schema/schema_generated.h"

struct TfLiteTensor {
  struct {
    char* raw;
  } data;
};
namespace tflite {
class MicroInterpreter {
 public:
  template <typename Resolver>
  MicroInterpreter(const Model* model, const Resolver&, uint8_t* arena, size_t size) : model_(model), arena_(arena), size_(size) {
    input_.data.raw = reinterpret_cast<char*>(arena_);
    output_.data.raw = input_.data.raw + size_ / 2;
  }
  template <typename Resolver>
  MicroInterpreter(const Model* model, const Resolver& resolver, MicroAllocator* allocator, MicroResourceVariables*)
      : MicroInterpreter(model, resolver, allocator->arena, allocator->size) {}
  TfLiteStatus AllocateTensors() {
    const bool aligned = reinterpret_cast<uintptr_t>(model_) % 16 == 0 && reinterpret_cast<uintptr_t>(arena_) % 32 == 0;
    return aligned ? kTfLiteOk : kTfLiteError;
  }
  size_t arena_used_bytes() const { return size_; }
  TfLiteTensor* input(int) { return &input_; }
  TfLiteTensor* output(int) { return &output_; }
  TfLiteStatus Invoke() {
    FILE* made = std::fopen("input.bin", "wb");
    std::fwrite(input_.data.raw, 1, INPUT_BYTES, made);
    std::fclose(made);
    FILE* result = std::fopen("output.bin", "rb");
    const size_t count = std::fread(output_.data.raw, 1, OUTPUT_BYTES, result);
    std::fclose(result);
    return count == OUTPUT_BYTES ? kTfLiteOk : kTfLiteError;
  }

 private:
  const Model* model_;
  uint8_t* arena_;
  size_t size_;
  TfLiteTensor input_, output_;
};
}  // namespace tflite
