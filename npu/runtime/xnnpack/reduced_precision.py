"""The model metadata that permits half precision: the only place that knows its name and text.

The text lists types, then "acc" and the accumulation type, as in "fp16accfp16" or "fp16bf16accfp32" (the format of TFLite's
converter option `_experimental_supported_accumulation_type`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from npu.graph.graph import Model
from npu.records import dataclass
from npu.runtime.misuse import InterpreterValueError

METADATA_NAME = "reduced_precision_support"
_TYPES = ("fp16", "bf16")
_ACCUMULATORS = ("fp32", "fp16")
_TEXT = re.compile(r"((?:fp16|bf16)+)acc(fp32|fp16)")


@dataclass(frozen=True, slots=True)
class ReducedPrecision:
    """Types that a model tolerates for inference ("fp16", "bf16"), and the type it needs for sums ("fp32", "fp16")."""

    types: frozenset[str]
    accumulator: str

    @property
    def permits_fp16(self) -> bool:
        """Whether half precision may be used throughout, sums included."""
        return "fp16" in self.types and self.accumulator == "fp16"


def read_reduced_precision(model: Model) -> ReducedPrecision | None:
    """What the metadata says; None where it is missing or says nothing that is understood."""
    content = model.metadata.get(METADATA_NAME)
    if content is None:
        return None
    match = _TEXT.fullmatch(bytes(content).rstrip(b"\0").decode("ascii", "replace"))
    if match is None:
        return None
    return ReducedPrecision(frozenset(re.findall("fp16|bf16", match[1])), match[2])


def with_reduced_precision(model: Model, types: Collection[str] = ("fp16",), accumulator: str = "fp16") -> Model:
    """The model with the metadata; InterpreterValueError for names other than fp16, bf16 and accumulators fp16, fp32."""
    if not types or not set(types) <= set(_TYPES) or accumulator not in _ACCUMULATORS:
        raise InterpreterValueError(
            f"reduced precision: types must be of {_TYPES} and the accumulator of {_ACCUMULATORS},"
            f" got {sorted(types)} and '{accumulator}'"
        )
    text = "".join(name for name in _TYPES if name in types) + "acc" + accumulator
    return replace(model, metadata={**model.metadata, METADATA_NAME: text.encode("ascii")})
