"""What the sources of an application are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from npu.records import dataclass
from npu.tflite_micro.arena import ArenaSize
from npu.tflite_micro.resolver import ResolverEntry


@dataclass(frozen=True, slots=True)
class Application:
    """What the files are made of. `memories` names the memory of `constants`, `arena` and `cache` (the fast scratch).

    `fast_scratch_bytes` is 0 where the fast scratch is part of the arena; `resource_variables` counts those that
    `VAR_HANDLE` names. `inputs` and `outputs` are those of the self-test, in
    model order.
    """

    name: str
    target: str
    content: bytes
    operators: Sequence[ResolverEntry]
    arena: ArenaSize
    fast_scratch_bytes: int
    resource_variables: int
    memories: Mapping[str, str]
    inputs: Sequence[npt.NDArray[np.generic]]
    outputs: Sequence[npt.NDArray[np.generic]]
