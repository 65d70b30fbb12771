"""Which operators the NPU and the CPU delegates take, and why not."""
