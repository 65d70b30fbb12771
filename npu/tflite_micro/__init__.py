"""What an application of TensorFlow Lite Micro needs beside the compiled file: C arrays, operators, arena size, a self-test."""
