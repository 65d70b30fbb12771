"""Small graphs that make Vela write what none of its single operators has, each with the target and options that do it.

`STREAMS` are compiled by the installed Vela 5.2, with its C++ core or its older Python core (`PYTHON_CORE`); `STORED` are files
of Vela 5.0 in tests/golden/vela-5.0, whose TILE copies by strided transfers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType

from tests.support import operator_cases as base
from tests.support.builder import ModelBuilder
from tests.support.operator_cases import I8, In, ints, model
from tests.support.vela_operators import VELA_CASES, with_shapes

PYTHON_CORE = "--debug-force-legacy-core"
OLD = Path(__file__).parents[1] / "golden" / "vela-5.0"


@dataclass(frozen=True)
class Stream:
    """A model by seed, what to compile it for, the features that it is here for, and findings that Vela is to blame for."""

    build: Callable[[int], bytes]
    target: str
    options: tuple[str, ...]
    features: tuple[str, ...]
    findings: frozenset[str] = frozenset()


def _single(name: str) -> Callable[[int], bytes]:
    return lambda seed: with_shapes(VELA_CASES[name](np.random.default_rng([seed, 7])))


def _start(seed: int, shape: tuple[int, ...]) -> tuple[np.random.Generator, ModelBuilder, int]:
    b = ModelBuilder()
    return np.random.default_rng(seed), b, b.input(shape, I8, scale=0.05, zero_point=-7)


def _convolution(rng: np.random.Generator, b: ModelBuilder, x: int, channels: int, kernel: int, scale: float) -> int:
    n, h, w, c = b.tensors[x].shape
    weights = b.constant(rng.integers(-127, 128, (channels, kernel, kernel, c)).astype(np.int8), scale=0.01)
    quantization = b.tensors[x].quantization
    assert quantization is not None
    bias = b.constant(rng.integers(-4000, 4000, channels).astype(np.int32), scale=float(quantization.scales[0]) * 0.01)
    options = at.Conv2DOptions(Padding.SAME, 1, 1)
    return b.op("CONV_2D", [x, weights, bias], (n, h, w, channels), I8, scale, 3, attributes=options)


def _tables(seed: int) -> bytes:
    """A sum, TANH, another sum, SOFTMAX: tables of 256 and of 1024 bytes in SHRAM."""
    _, b, x = _start(seed, (1, 5, 6, 8))
    plain = at.AddOptions(pot_scale_int16=False)
    first = b.op("ADD", [x, x], (1, 5, 6, 8), I8, 0.07, 11, attributes=plain)
    bent = b.op("TANH", [first], (1, 5, 6, 8), I8, 1 / 128, 0)
    total = b.op("ADD", [bent, x], (1, 5, 6, 8), I8, 0.05, 4, attributes=plain)
    b.output(b.op("SOFTMAX", [total], (1, 5, 6, 8), I8, 1 / 256, -128, attributes=at.SoftmaxOptions(1.0)))
    return b.build()


def _cascade(seed: int) -> bytes:
    """Convolutions and pools over bands of rows, which are kept in rolling buffers."""
    rng, b, x = _start(seed, (1, 40, 20, 16))
    for _ in range(2):
        y = _convolution(rng, b, x, 16, 3, 0.4)
        options = at.Pool2DOptions(Padding.SAME, 1, 1, 1, 3)
        x = b.op("AVERAGE_POOL_2D", [y], b.tensors[y].shape, I8, 0.4, 3, attributes=options)
    b.output(_convolution(rng, b, x, 4, 1, 2.0))
    return b.build()


def _residual(seed: int) -> bytes:
    """A sum of a map with what a convolution makes of it, over bands of rows."""
    rng, b, x = _start(seed, (1, 40, 20, 16))
    y = _convolution(rng, b, x, 16, 3, 0.4)
    z = _convolution(rng, b, y, 16, 1, 0.4)
    total = b.op("ADD", [z, y], b.tensors[y].shape, I8, 0.6, 0, attributes=at.AddOptions(pot_scale_int16=False))
    b.output(_convolution(rng, b, total, 4, 3, 2.0))
    return b.build()


def _half_pixel_resize(seed: int) -> bytes:
    """Twice the size: four depthwise convolutions whose input repeats its edges by tiles."""
    rng = np.random.default_rng(seed)
    h, w, c = (int(n) for n in rng.integers(2, 7, 3))
    ifm = base.tensor(rng, (1, h, w, c), I8)
    options = at.ResizeBilinearOptions(False, True)
    return with_shapes(model("RESIZE_BILINEAR", [ifm, ints([2 * h, 2 * w])], [base.out(rng, I8, ifm)], options))


def tiled(multiples: tuple[int, ...], seed: int) -> bytes:
    """A TILE of a map of 4x5 pixels."""
    rng = np.random.default_rng(seed)
    ifm = base.tensor(rng, (1, 4, 5, 8), I8)
    return with_shapes(model("TILE", [ifm, ints(multiples)], [In((1,), DType.INT8, ifm.scale, ifm.zero_point)]))


def padded_average() -> bytes:
    """An AVERAGE_POOL_2D of 3x3 with padding."""
    _, b, x = _start(0, (1, 6, 7, 8))
    options = at.Pool2DOptions(Padding.SAME, 1, 1, 3, 3)
    b.output(b.op("AVERAGE_POOL_2D", [x], (1, 6, 7, 8), I8, 0.05, -7, attributes=options))
    return b.build()


_SIZE = ("--optimise", "Size")
STREAMS: dict[str, Stream] = {
    "two tables, Python core": Stream(_tables, "ethos-u55-128", (PYTHON_CORE,), ("LUT other than 0",)),
    "cascade": Stream(_cascade, "ethos-u55-64", _SIZE, ("IFM in two rows of tiles",)),
    "cascade, Python core": Stream(
        _cascade, "ethos-u65-512", ("--arena-cache-size", "20000", PYTHON_CORE), ("IFM in two rows of tiles",)
    ),
    "residual": Stream(_residual, "ethos-u55-64", _SIZE, ("IFM in two rows of tiles", "OFM in two rows of tiles")),
    "RESIZE_BILINEAR-int8, Python core": Stream(
        _half_pixel_resize, "ethos-u55-128", (PYTHON_CORE,), ("IFM in four tiles",), frozenset({"HAZARD-BLOCKDEP"})
    ),
    "SOFTMAX-int16, Python core": Stream(_single("SOFTMAX-int16"), "ethos-u65-512", (PYTHON_CORE,), ("SHR, rounding DOUBLE",)),
    "MIRROR_PAD-int8, Python core": Stream(
        _single("MIRROR_PAD-int8"), "ethos-u55-32", (PYTHON_CORE,), ("OFM with negative column stride",)
    ),
}  # fmt: skip
STORED: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "tile_rows": ((1, 2, 1, 1), ("DMA of rows",)),
    "tile_planes": ((1, 2, 3, 2), ("DMA of rows", "DMA of planes")),
}
"""Files of Vela 5.0.0 for ethos-u65-256: the multiples of a TILE, and the features."""
