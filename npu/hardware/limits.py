"""How much a description may hold."""

MAX_FILE_BYTES = 64 * 1024
MAX_NESTING = 16
WIDEST_BITS = 1024
"""Of an integer: beyond any field, and still one that a message can hold."""
