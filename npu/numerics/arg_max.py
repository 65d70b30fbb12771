"""Over how many elements an ARG_MAX is exact on an NPU: checker and compiler ask here."""

MOST_KEYS = 128
"""In keys of 16 bits: 9 are the value and its sign, 7 tell the elements apart."""
PLACE_SHIFT = 16
"""Bits of the value, above which an operation of its own has the place of the largest."""
MOST_PLACES = 1 << (31 - PLACE_SHIFT)
"""Of which a number of 32 bits holds value and place."""


def most_compared(*, finds_places: bool) -> int:
    """With an operation that finds places, or without one."""
    return MOST_PLACES if finds_places else MOST_KEYS
