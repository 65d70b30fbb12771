"""Where lowered operators and LiteRT's reference kernels part, and why: the one table of such cases.

Everything that is not listed here is equal bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One case. `largest` is the largest difference in steps of the output, None where the reference gives no result."""

    kinds: tuple[str, ...]
    case: str
    cause: str
    largest: int | None


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        ("FULLY_CONNECTED",),
        "always",
        "LiteRT's reference kernel scales the accumulator in double precision and rounds once; the hardware, like "
        "tflite-micro, multiplies by a 31-bit number and rounds twice",
        1,
    ),
    Difference(
        ("ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "MUL", "SUB"),
        "fused activation TANH",
        "LiteRT's int8 kernels ignore the attribute; here tanh is applied, in the output's quantisation before and after",
        255,
    ),
    Difference(
        ("SOFTMAX",),
        "a row of more than 511 values near its maximum (sum of exps at least 512)",
        "gemmlowp shifts by more than 31 bits, which its debug check turns into an abort; here the shift is carried out",
        None,
    ),
    Difference(
        ("SOFTMAX",),
        "beta times input scale below 2**-26",
        "LiteRT wants a multiplier above 1 and aborts; here every value of a row gets the same share",
        None,
    ),
    Difference(
        ("CONCATENATION", "PACK"),
        "inputs and output of different quantisation",
        "LiteRT refuses the model; here the inputs are requantised with two roundings, as QUANTIZE does",
        None,
    ),
    Difference(
        ("CONCATENATION",),
        "fused activation",
        "LiteRT refuses the model; here the activation is applied while the inputs are copied",
        None,
    ),
    Difference(("CONV_2D",), "no bias", "LiteRT refuses the model; here the bias is 0", None),
    Difference(
        ("LOGISTIC", "TANH"),
        "output scale other than 1/256 (LOGISTIC)",
        "LiteRT refuses the model; here the table is made for the output's scale",
        None,
    ),
)
"""Every known case."""
