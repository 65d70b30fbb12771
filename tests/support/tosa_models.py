"""Makes tests/golden/tosa.npz: single-operator TOSA 1.0 models, inputs, and the outputs of Arm's TOSA reference model.

Needs the package tosa-tools (2026.8.0), which the tests themselves do not: `python -m tests.support.tosa_models`. In the
archive, "NAME" is the model file as bytes, "NAME/in0" and so on are its inputs, "NAME/out0" its output.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ARCHIVE = Path(__file__).parents[1] / "golden" / "tosa.npz"
_SHAPE = (1, 4, 5, 6)
_ROUNDINGS = ("SINGLE_ROUND", "DOUBLE_ROUND")
_LIMIT = 1 << 20


class Sketch:
    """One TOSA graph under construction with its source of randomness; types are names such as "INT8"."""

    def __init__(self, folder: Path) -> None:
        from serializer import tosa_serializer as serializer  # only here: the tests run without the package
        from tosa.DType import DType
        from tosa.Op import Op
        from tosa.ResizeMode import ResizeMode
        from tosa.RoundingMode import RoundingMode

        self.attribute, self.types, self.ops = serializer.TosaSerializerAttribute, DType(), Op()
        self.rounding, self.modes = RoundingMode, ResizeMode
        version = {"major": 1, "minor": 0, "patch": 0, "draft": False}
        self.graph = serializer.TosaSerializer(str(folder), **{f"tosa_version_{key}": value for key, value in version.items()})
        self.rng = np.random.default_rng(0)

    def input(self, kind: str, shape: Sequence[int] = _SHAPE, limit: int | None = None) -> Any:
        bits = int(kind.removeprefix("INT"))
        high = (1 << bits - 1) - 1 if limit is None else limit
        data = self.rng.integers(-high - (limit is None), high, shape, endpoint=True).astype(f"int{bits}")
        return self.graph.addPlaceholder(list(shape), getattr(self.types, kind), data)

    def constant(self, kind: str, values: Any) -> Any:
        stored = {"INT8": np.int8, "INT16": np.int16, "INT32": np.int32}.get(kind, np.int64)
        data = np.array(values, stored)
        return self.graph.addConst(list(data.shape), getattr(self.types, kind), data)

    def op(self, kind: str, inputs: Sequence[Any], to: str, shape: Sequence[int], *options: Any, last: bool = True) -> Any:
        """Adds an operator; its attribute table is named after it, with `options`."""
        made = (self.graph.addOutput if last else self.graph.addIntermediate)(list(shape), getattr(self.types, to))
        table = self.attribute()
        getattr(table, _TABLES.get(kind) or "".join(part.capitalize() for part in kind.split("_")) + "Attribute")(*options)
        self.graph.addOperator(getattr(self.ops, kind), [item.name for item in inputs], [made.name], table)
        return made


_TABLES = {
    "CONV2D": "Conv2dAttribute", "DEPTHWISE_CONV2D": "DepthwiseConv2dAttribute", "AVG_POOL2D": "AvgPool2dAttribute",
    "MAX_POOL2D": "MaxPool2dAttribute", "ARGMAX": "ArgMaxAttribute", "MATMUL": "MatMulAttribute",
    "ARITHMETIC_RIGHT_SHIFT": "ArithmeticRightShiftAttribute", "LOGICAL_LEFT_SHIFT": "LogicalLeftShiftAttribute",
}  # fmt: skip


def _rescale(
    s: Sketch, x: Any, source: str, to: str, rounding: str, shift: int, shape: Sequence[int] = _SHAPE, *,
    zeros: tuple[int, int] = (0, 0), channels: int = 1,
) -> None:  # fmt: skip
    wide = source != "INT48"
    multiplier = s.rng.integers(1 << (30 if wide else 14), (1 << (31 if wide else 15)) - 1, channels)
    inputs = [x, s.constant("INT32" if wide else "INT16", multiplier), s.constant("INT8", [shift] * channels)]
    inputs += [s.constant(source, [zeros[0]]), s.constant(to, [zeros[1]])]
    s.op("RESCALE", inputs, to, shape, wide, getattr(s.rounding, rounding), channels > 1, False, False)


def _convolution(s: Sketch, source: str, *, depthwise: bool = False, last: bool = False) -> tuple[Any, tuple[int, ...]]:
    """A 3x3 one without padding."""
    total, channels = "INT48" if source == "INT16" else "INT32", 5 if depthwise else 9
    weights = s.rng.integers(-127, 128, (3, 3, 5, 1) if depthwise else (9, 3, 3, 5))
    inputs = [s.input(source, (1, 6, 7, 5)), s.constant("INT8", weights)]
    inputs += [s.constant(total, s.rng.integers(-3000, 3000, channels))]
    inputs += [s.constant(source, [0 if source == "INT16" else 3]), s.constant("INT8", [0])]
    shape, options = (1, 4, 5, channels), ([0, 0, 0, 0], [1, 1], [1, 1], False, getattr(s.types, total))
    return s.op("DEPTHWISE_CONV2D" if depthwise else "CONV2D", inputs, total, shape, *options, last=last), shape


def _rescaled_convolution(s: Sketch, to: str, rounding: str, shift: int, source: str = "INT8", **how: bool) -> None:
    made, shape = _convolution(s, source, depthwise=how.get("depthwise", False))
    channels, total = shape[3] if how.get("per_channel") else 1, "INT48" if source == "INT16" else "INT32"
    _rescale(s, made, total, to, rounding, shift, shape, zeros=(0, -5 if to == "INT8" else 0), channels=channels)


def _binary(s: Sketch, kind: str, *options: Any, to: str = "INT32", shift: int | None = None, **shapes: Any) -> None:
    source, limit = shapes.get("source", "INT32"), shapes.get("limit", _LIMIT)
    a, b = (s.input(source, shapes.get(name, _SHAPE), limit) for name in ("a", "b"))
    inputs = [a, b] if shift is None else [a, b, s.constant("INT8", [shift])]
    s.op(kind, inputs, to, np.broadcast_shapes(shapes.get("a", _SHAPE), shapes.get("b", _SHAPE)), *options)


def _shift(s: Sketch, kind: str, *options: Any) -> None:
    amounts = s.graph.addPlaceholder(list(_SHAPE), s.types.INT32, s.rng.integers(0, 32, _SHAPE).astype(np.int32))
    s.op(kind, [s.input("INT32"), amounts], "INT32", _SHAPE, *options)


def _unary(
    s: Sketch, kind: str, source: str, *options: Any, to: str = "", shape: Sequence[int] = _SHAPE, limit: int | None = None,
    more: Callable[[Sketch], list[Any]] = lambda _: [],
) -> None:  # fmt: skip
    s.op(kind, [s.input(source, limit=limit), *more(s)], to or source, shape, *options)


def _average(s: Sketch, kind: str, pad: int) -> None:
    zero = 4 if kind == "INT8" else 0
    inputs = [s.input(kind, (1, 6, 7, 5)), s.constant(kind, [zero]), s.constant(kind, [zero])]
    shape = (1, 4 + 2 * pad, 5 + 2 * pad, 5)
    s.op("AVG_POOL2D", inputs, kind, shape, [3, 3], [1, 1], [pad] * 4, s.types.INT32)


def _matmul(s: Sketch) -> None:
    inputs = [s.input("INT8", (1, 4, 5)), s.input("INT8", (1, 5, 6)), s.constant("INT8", [3]), s.constant("INT8", [-4])]
    s.op("MATMUL", inputs, "INT32", (1, 4, 6))


def models() -> dict[str, Callable[[Sketch], object]]:
    """How each model is drawn, by name."""
    found: dict[str, Callable[[Sketch], object]] = {
        "CONV2D-int32": lambda s: _convolution(s, "INT8", last=True),
        "DEPTHWISE_CONV2D-int32": lambda s: _convolution(s, "INT8", depthwise=True, last=True),
        "CONV2D-int16": lambda s: _rescaled_convolution(s, "INT16", "SINGLE_ROUND", 24, "INT16"),
        "CONV2D-int16-channels": lambda s: _rescaled_convolution(s, "INT16", "SINGLE_ROUND", 24, "INT16", per_channel=True),
        "MUL-int8": lambda s: _binary(s, "MUL", source="INT8", limit=None, shift=0),
        "MUL-int16": lambda s: _binary(s, "MUL", source="INT16", limit=None, shift=0),
        "MUL-int32": lambda s: _binary(s, "MUL", limit=46340, shift=0),
        "MUL-int32-shift": lambda s: _binary(s, "MUL", shift=20),
        "ADD-int32": lambda s: _binary(s, "ADD"),
        "SUB-int32": lambda s: _binary(s, "SUB"),
        "SUB-int32-broadcast": lambda s: _binary(s, "SUB", a=(1, 4, 1, 6)),
        "MAXIMUM-int32": lambda s: _binary(s, "MAXIMUM", 1),
        "MINIMUM-int32": lambda s: _binary(s, "MINIMUM", 1),
        "ARITHMETIC_RIGHT_SHIFT-int32": lambda s: _shift(s, "ARITHMETIC_RIGHT_SHIFT", True),
        "LOGICAL_LEFT_SHIFT-int32": lambda s: _shift(s, "LOGICAL_LEFT_SHIFT"),
        "ABS-int32": lambda s: _unary(s, "ABS", "INT32", limit=1 << 30),
        "CLZ-int32": lambda s: _unary(s, "CLZ", "INT32"),
        "REDUCE_SUM-int32": lambda s: _unary(s, "REDUCE_SUM", "INT32", 3, shape=(1, 4, 5, 1), limit=_LIMIT),
        "REDUCE_SUM-int32-rows": lambda s: _unary(s, "REDUCE_SUM", "INT32", 1, shape=(1, 1, 5, 6), limit=_LIMIT),
        "REDUCE_MAX-int8": lambda s: _unary(s, "REDUCE_MAX", "INT8", 1, 1, shape=(1, 1, 5, 6)),
        "REDUCE_MIN-int16": lambda s: _unary(s, "REDUCE_MIN", "INT16", 2, 1, shape=(1, 4, 1, 6)),
        "ARGMAX-int8": lambda s: _unary(s, "ARGMAX", "INT8", 3, 1, to="INT32", shape=(1, 4, 5)),
        "TABLE-int8": lambda s: _unary(
            s, "TABLE", "INT8", more=lambda s: [s.constant("INT8", s.rng.integers(-128, 128, 256))]
        ),
        "MATMUL-int8": _matmul,
        "CAST-int16-int8": lambda s: _unary(s, "CAST", "INT16", to="INT8", limit=127),
    }  # fmt: skip
    for rounding in _ROUNDINGS:
        how = rounding.split("_")[0].lower()
        for name, options in {"": {}, "-channels": {"per_channel": True}}.items():
            for kind, depth in (("CONV2D", {}), ("DEPTHWISE_CONV2D", {"depthwise": True})):
                found[f"{kind}-int8-{how}{name}"] = lambda s, r=rounding, o={**options, **depth}: _rescaled_convolution(  # type: ignore[misc]
                    s, "INT8", r, 40, **o
                )
        found[f"CONV2D-int8-int16-{how}"] = lambda s, r=rounding: _rescaled_convolution(s, "INT16", r, 36)  # type: ignore[misc]
        found[f"CONV2D-int8-int32-{how}"] = lambda s, r=rounding: _rescaled_convolution(s, "INT32", r, 33)  # type: ignore[misc]
        for (source, to), shift in _RESCALES.items():
            found[f"RESCALE-{source.lower()}-{to.lower()}-{how}"] = lambda s, a=source, b=to, n=shift, r=rounding: _rescale(  # type: ignore[misc]
                s, s.input(a, limit=1 << 22 if a == "INT32" else None), a, b, r, n,
                zeros=(5 if a == "INT8" else 0, -7 if b == "INT8" else 0),
            )  # fmt: skip
    for kind in ("INT8", "INT16", "INT32"):
        found |= _moves(kind)
    return found


_RESCALES = {
    ("INT32", "INT8"): 45, ("INT32", "INT16"): 38, ("INT32", "INT32"): 33, ("INT8", "INT8"): 31, ("INT8", "INT16"): 25,
    ("INT8", "INT32"): 18, ("INT16", "INT16"): 31, ("INT16", "INT8"): 39, ("INT16", "INT32"): 22,
}  # fmt: skip


def _moves(kind: str) -> dict[str, Callable[[Sketch], object]]:
    name = kind.lower()
    found: dict[str, Callable[[Sketch], object]] = {
        f"REVERSE-{name}-rows": lambda s: _unary(s, "REVERSE", kind, 1),
        f"REVERSE-{name}-columns": lambda s: _unary(s, "REVERSE", kind, 2),
        f"TRANSPOSE-{name}": lambda s: _unary(s, "TRANSPOSE", kind, [0, 2, 1, 3], shape=(1, 5, 4, 6)),
        f"TILE-{name}": lambda s: _unary(
            s, "TILE", kind, shape=(1, 8, 5, 6), more=lambda s: [s.constant("SHAPE", [1, 2, 1, 1])]
        ),
        f"PAD-{name}": lambda s: _unary(
            s, "PAD", kind, shape=(1, 6, 6, 6),
            more=lambda s: [s.constant("SHAPE", [0, 0, 1, 1, 0, 1, 0, 0]), s.constant(kind, [7])],
        ),
        f"NEGATE-{name}": lambda s: _unary(
            s, "NEGATE", kind, limit=100, more=lambda s: [s.constant(kind, [0]), s.constant(kind, [0])]
        ),
    }  # fmt: skip
    if kind != "INT32":
        found[f"CAST-{name}-int32"] = lambda s: _unary(s, "CAST", kind, to="INT32")
        found[f"AVG_POOL2D-{name}"] = lambda s: _average(s, kind, 0)
        found[f"AVG_POOL2D-{name}-padded"] = lambda s: _average(s, kind, 1)
    return found


def files() -> dict[str, bytes]:
    """The model files of the archive, by name."""
    with np.load(ARCHIVE) as archive:
        return {name: archive[name].tobytes() for name in archive.files if "/" not in name}


def _evaluated(name: str, draw: Callable[[Sketch], object]) -> dict[str, Any]:
    """The arrays of one model; RuntimeError if the reference model does not define its result."""
    with tempfile.TemporaryDirectory() as folder:
        sketch = Sketch(Path(folder))
        draw(sketch)
        content = bytes(sketch.graph.serialize())
        (Path(folder) / "model.tosa").write_bytes(content)
        described = Path(folder) / "desc.json"
        described.write_text(sketch.graph.writeJson("model.tosa"))
        files = json.loads(described.read_text())
        done = subprocess.run(
            ["tosa_reference_model", "--test_desc", str(described)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
        arrays: dict[str, Any] = {name: np.frombuffer(content, np.uint8)}
        for end, kind in (("in", "ifm_file"), ("out", "ofm_file")):
            arrays |= {f"{name}/{end}{index}": np.load(Path(folder) / file) for index, file in enumerate(files[kind])}
        return arrays


def main() -> None:
    """Write the archive."""
    arrays: dict[str, Any] = {}
    for name, draw in models().items():
        arrays |= _evaluated(name, draw)
    np.savez_compressed(ARCHIVE, **arrays)


if __name__ == "__main__":
    main()
