"""Over how many elements an ARG_MAX is exact on an NPU: checker and compiler ask here."""

MOST_KEYS = 128
"""In keys of 16 bits: 9 are the value and its sign, 7 tell the elements apart."""
MOST_PLACES = 1 << 15
"""Of an operation of its own: the place stands above 16 bits of the value, and a number of 32 bits holds both."""


def most_compared(*, finds_places: bool) -> int:
    """With an operation that finds places, or without one."""
    return MOST_PLACES if finds_places else MOST_KEYS
