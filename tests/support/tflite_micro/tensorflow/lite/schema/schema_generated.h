#pragma once
namespace tflite {
struct Model {};
inline const Model* GetModel(const void* file) { return static_cast<const Model*>(file); }
}  // namespace tflite
