"""Changes of a model that keep every result bit for bit and let the NPU take more of it: one module a kind of change."""
