"""The compiler's passes, one a file: functions from a state to the next. `npu.compiler.pipeline` has them in order."""
