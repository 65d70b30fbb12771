"""The NPU toolchain: reader and writer, compiler, interpreter and command line."""
