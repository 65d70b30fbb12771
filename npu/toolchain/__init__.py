"""check, compile, run, inspect: the composition of the checker, the compiler, the interpreter and the simulator.

Functions take a path or bytes and return values; nothing here prints. One module a verb, so that each imports only what it
needs.
"""
