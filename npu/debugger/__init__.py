"""`npu debug`: stepping through the NPU jobs of a compiled file, forwards and backwards."""
