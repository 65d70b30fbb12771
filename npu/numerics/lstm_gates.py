"""How the gates of integer LSTM cells are computed: the one choice that compiler and reference must make alike."""

from __future__ import annotations

from enum import Enum

from npu.errors import UserError

SIGMOID_RANGE = 11, 32757
"""Limits of the logistic function by the table: the hardware's is 0 or 1 too early. Vela sets the same."""

MOST_TIMES = 256
"""Times of a cell that are unrolled on the NPU; each takes about 80 operations, of which the commands are 4 KB."""
CELL_EXPONENTS = -15, -10
"""Of 2, for the least and the greatest scale of a cell state on the NPU: the tanh has one integer bit more than the state, and
exp() knows the factors of seven bits."""


class LstmGates(Enum):
    """Logistic function and tanh of a cell with 8-bit activations on the NPU."""

    EXACT = "exact"
    """Bit by bit those of LiteRT's reference, in many steps."""
    TABLE = "table"
    """The straight lines of the hardware's own table, in one step; docs/exactness.md has the differences."""


def gates_named(gates: LstmGates | str) -> LstmGates:
    """The choice of this name; itself if it is one already. UserError for another name."""
    try:
        return LstmGates(gates)
    except ValueError:
        names = ", ".join(one.value for one in LstmGates)
        raise UserError(f"lstm_gates: must be one of {names}, got {gates!r}") from None
