// The calls of TensorFlow Lite Micro that exported sources make, counted; a stand-in for its headers in tests.
#pragma once
enum TfLiteStatus { kTfLiteOk, kTfLiteError };
struct TFLMRegistration {};
namespace tflite {
template <unsigned int count>
class MicroMutableOpResolver {
 public:
  TfLiteStatus AddEthosU() { return add(); }
  TfLiteStatus AddSoftmax(const TFLMRegistration& = {}) { return add(); }
  TfLiteStatus AddConv2D(const TFLMRegistration& = {}) { return add(); }
  TfLiteStatus AddAdd() { return add(); }
  TfLiteStatus AddAssignVariable() { return add(); }
  TfLiteStatus AddDequantize() { return add(); }
  TfLiteStatus AddQuantize() { return add(); }
  TfLiteStatus AddReadVariable() { return add(); }
  TfLiteStatus AddVarHandle() { return add(); }
  TfLiteStatus AddCustom(const char*, const TFLMRegistration*) { return add(); }
  unsigned int added = 0;

 private:
  TfLiteStatus add() { return added++ < count ? kTfLiteOk : kTfLiteError; }
};
}  // namespace tflite
