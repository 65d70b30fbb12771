"""Machine code of the kernels: how they are declared, made into libraries with numba, kept, and loaded without it."""
