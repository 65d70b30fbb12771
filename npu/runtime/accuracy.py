"""How close results are to LiteRT's reference kernels, and where types are treated otherwise: the one table of both.

Integer results are equal. Float results are equal bit for bit unless an operator has a row here.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Largest distance of a float result: `steps` float32 steps, counted at the magnitude that `measure` names.

    `measure` is "result" (each result's own magnitude), "terms" (the sum of the magnitudes of the terms that it adds up) or
    "largest" (the largest magnitude among the results, at least 1/16).
    """

    steps: int
    measure: str
    reason: str


_CELL = "sums in another order and tanh, exp of another mathematical library, over all steps of time"
_NORMALISED = f"{_CELL}; layer normalisation of nearly equal sums multiplies the last bits"

ACCURACY: dict[str, Accuracy] = {
    "ATAN2": Accuracy(1, "result", "computed in double precision"),
    "BIDIRECTIONAL_SEQUENCE_LSTM": Accuracy(16, "largest", _CELL),
    "BIDIRECTIONAL_SEQUENCE_RNN": Accuracy(16, "largest", _CELL),
    "ELU": Accuracy(2, "result", "expm1 of another mathematical library"),
    "GELU": Accuracy(4, "terms", "erf of another mathematical library; the terms are x / 2 and x / 2 * erf(x / sqrt(2))"),
    "LOCAL_RESPONSE_NORMALIZATION": Accuracy(4, "result", "pow of another mathematical library"),
    "LSTM": Accuracy(128, "largest", _NORMALISED),
    "RFFT2D": Accuracy(1, "largest", "the transform in double precision by another library"),
    "RNN": Accuracy(16, "largest", _CELL),
    "SVDF": Accuracy(4, "largest", "sums in another order"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Accuracy(128, "largest", _NORMALISED),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Accuracy(16, "largest", _CELL),
}
"""By kind."""


@dataclass(frozen=True, slots=True)
class Departure:
    """Type combinations that LiteRT and this interpreter treat differently. `cells`: patterns of "KIND inputs -> outputs"."""

    cells: tuple[str, ...]
    reason: str

    def matches(self, cell: str) -> bool:
        return any(fnmatchcase(cell, pattern) for pattern in self.cells)


def _rows(kinds: str, *types: str) -> tuple[str, ...]:
    return tuple(f"{kind} {row}" for kind in kinds.split() for row in types)


REFUSED: tuple[Departure, ...] = (
    Departure(
        (
            *_rows("BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND", "* i32 i64 -> *"), "TRANSPOSE * i64 -> *",
            "SLICE f32 i32 i64 -> f32", "ONE_HOT i32 i64 f32 f32 -> f32",
        ),
        "LiteRT reads the int64 numbers as int32",
    ),
    Departure(
        (
            "CONV_2D f32 f16 f32 -> f32", "CONV_2D f32 u8 f32 -> f32",
            "CONV_2D f32 i16 f32 -> f32", "CONV_2D u8 i* i32 -> u8", "CONV_2D i16 i16 * -> i16",
            "DEPTHWISE_CONV_2D u8 i4* -> u8", "DEPTHWISE_CONV_2D i16 i4* -> i16", "DEPTHWISE_CONV_2D i16 i16 * -> i16",
            "DEPTHWISE_CONV_2D i16 u8 * -> i16", "FULLY_CONNECTED f32 u8 * -> f32", "FULLY_CONNECTED i8 u8 * -> i8",
            "FULLY_CONNECTED u8 i* -> *", "FULLY_CONNECTED i16 i16 * -> i16", "FULLY_CONNECTED i16 u8 * -> i16",
            "PRELU i16 i16 -> i16", "PRELU i8 i16 -> i8", "PRELU f32 i8 -> f32", "GATHER i4 i32 -> *",
        ),
        "LiteRT does not check the type of the constant operand and reads its bytes as another type",
    ),
    Departure(
        (*_rows("MATRIX_DIAG MATRIX_SET_DIAG", "f16*", "f64*", "u16*", "u32*", "u64*", "bool*", "c64*"), "ATAN2 f16*"),
        "LiteRT does not check the type and writes nothing of it, or other elements",
    ),
    Departure(
        ("FULLY_CONNECTED [iu]8 * i64 -> *",), "LiteRT reads the int64 bias as int32",
    ),
    Departure(
        (
            "BATCH_MATMUL i8 i8 -> i16", "BATCH_MATMUL i16 i* -> i32", "FULLY_CONNECTED i8 i8* -> u8",
            "FULLY_CONNECTED i8 i8* -> i16", "FULLY_CONNECTED u8 u8 * -> i8", "FULLY_CONNECTED i16 i8 * -> i8",
            "MEAN i8 i32 -> i16",
            "MEAN i8 i32 -> i32", "MUL i8 i8 -> i32", *_rows("REDUCE_PROD SUM", "i8 i32 -> i16", "i8 i32 -> i32"),
        ),
        "LiteRT writes elements of another type than the output's",
    ),
    Departure(
        ("FAKE_QUANT [iubcs]* -> *", "FAKE_QUANT f16 *", "FAKE_QUANT f64 *"),
        "LiteRT does not check the types and reads every element as float32",
    ),
    Departure(("FILL * str -> str",), "the strings that LiteRT writes are not those of the value"),
    Departure(("QUANTIZE [iu]* -> i8c",), "LiteRT takes 0 for the scale of an output that has several"),
    Departure(("DEPTHWISE_CONV_2D f32 i8* - -> f32",), "LiteRT reads a bias that is not there"),
)  # fmt: skip
"""Combinations that LiteRT executes but that are refused here."""

ACCEPTED: tuple[Departure, ...] = (
    Departure(("CONV_2D * - -> *",), "a bias may be absent, as other compilers write it; LiteRT asks for one"),
    Departure(("DENSIFY *",), "a constant that is dense already passes; LiteRT asks for a sparse one"),
    Departure(
        (*_rows("EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL", "i8p *", "u8p *"), "SUB i16p *"),
        "integers without scale are compared and subtracted as they are; LiteRT stops the process",
    ),
    Departure(("GATHER str *",), "strings of any rank; LiteRT takes rank 1"),
)
"""Combinations that are executed here but that LiteRT refuses."""

OTHER_VALUES: tuple[Departure, ...] = (
    Departure(
        (*_rows("CONV_2D FULLY_CONNECTED", "i16 i[48]* i32 -> i16"), "TRANSPOSE_CONV i32 i8* i16 i32 -> i16"),
        "the int32 bias is added as it is; LiteRT reads it as int64",
    ),
    Departure(("DEPTHWISE_CONV_2D f32 i8 f32 -> f32",), "one scale for all channels; LiteRT reads scales that are not there"),
    Departure(
        ("SUM i8* i32 -> *", "SUM u8p i32 -> *", "SUM i16* i32 -> *"),
        "equal to LiteRT's default kernel; the reference kernel reads the bytes as uint8 and divides by scales that are absent",
    ),
    Departure(
        ("NOT_EQUAL i16p *", "DIV i16p *"), "integers without scale are taken as they are; LiteRT leaves results undefined"
    ),
)
"""Combinations that both execute, with other results."""
