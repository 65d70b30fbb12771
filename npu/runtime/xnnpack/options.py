"""Options of the XNNPACK-like delegate, and what the simulated CPU can do with half precision."""

from __future__ import annotations

from enum import Enum
from typing import Any

from npu.records import dataclass
from npu.runtime.defaults import SWITCHES
from npu.runtime.misuse import InterpreterValueError
from npu.runtime.xnnpack.weights_cache import WeightsCache

MAX_THREADS = 64


class HalfPrecision(Enum):
    """How the simulated CPU computes IEEE fp16."""

    NONE = "none"
    """Neither natively nor emulated, as x86 without AVX2."""
    EMULATED = "emulated"
    """In float32, rounded to fp16 after every elementary operation, as x86 with AVX2."""
    NATIVE = "native"
    """With one rounding per elementary operation, as ARMv8.2 with fp16 arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XnnpackOptions:
    """Choices of the delegate. Make them with `default_options()` and `dataclasses.replace`, so that later fields fit in.

    `num_threads`: 1 to 64, results do not depend on it. `qs8`, `qu8`: take int8 and uint8 operators. `force_fp16`: compute
    float operators in half precision or fail. `variable_operators`: keep resource variables in the delegate.
    `transient_indirection_buffer`: rebuild indirection buffers in a shared workspace on every run. `weights_cache`: share
    packed weights. `half_precision`: what the simulated CPU offers.
    """

    num_threads: int
    qs8: bool
    qu8: bool
    force_fp16: bool
    variable_operators: bool
    transient_indirection_buffer: bool
    weights_cache: WeightsCache | None
    half_precision: HalfPrecision

    def __post_init__(self) -> None:
        threads = self.num_threads
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MAX_THREADS:
            raise InterpreterValueError(f"xnnpack options: num_threads must be in [1, {MAX_THREADS}], got {threads!r}")
        for name in SWITCHES:
            self._require(name, bool)
        self._require("weights_cache", WeightsCache | None)
        self._require("half_precision", HalfPrecision)

    def _require(self, name: str, kind: Any) -> None:
        value = getattr(self, name)
        if not isinstance(value, kind):
            wanted = getattr(kind, "__name__", "WeightsCache or None")
            raise InterpreterValueError(f"xnnpack options: {name} must be of type {wanted}, got {value!r}")


def default_options() -> XnnpackOptions:
    """One thread, float operators only, no cache, everything else off; the simulated CPU emulates half precision."""
    return XnnpackOptions(
        num_threads=1,
        qs8=False,
        qu8=False,
        force_fp16=False,
        variable_operators=False,
        transient_indirection_buffer=False,
        weights_cache=None,
        half_precision=HalfPrecision.EMULATED,
    )
