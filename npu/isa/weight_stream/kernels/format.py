"""Codes and limits of the weight-stream format, for encoder and decoder alike."""

MAX_ZDIV = 4
NO_ZERO_RUNS = 6
END_OF_STREAM = 7
"""ZDIV, the first field of a slice header: the divisor of zero runs up to MAX_ZDIV, or one of the codes."""
MAX_WDIV = 5
UNCOMPRESSED = 7
"""WDIV: the divisor of weights up to MAX_WDIV, or the code."""
MAX_QUOTIENT = 31
MAX_SLICE = 1 << 15
"""Symbols of one slice."""

OK = 0
TRUNCATED = 1
BAD_ZDIV = 2
BAD_WDIV = 3
NO_PALETTE = 4
ZERO_RUN_STATE = 5
SYMBOL_RANGE = 6
QUOTIENT_RANGE = 7
TOO_MANY = 8
TOO_FEW = 9
"""What decoding ends with."""
