"""What reading and checking files costs here and with the packages that do it too: python -m benchmarks.codecs MODEL.tflite

Best of 20 rounds, user CPU time. LiteRT's generated classes stand for the `flatbuffers` package, Pillow for pictures.
jsonschema stands for the checks of hardware descriptions: what a process pays before the first check, on both sides.
The last line is the weight encoder alone: weights in the order of the file, and uniformly random ones.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray
from PIL import Image

from npu.graph.graph import Model
from npu.isa.weight_stream.encode import encode_symbols
from npu.tflite.reader import read_model
from npu.tools.images import read_image

_ROUNDS = 20


def best_ms(call: Callable[[], object]) -> float:
    """User CPU milliseconds of the fastest round."""
    times = []
    for _ in range(_ROUNDS):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        call()
        times.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
    return min(times) * 1e3


def import_ms(module: str, after: str) -> float:
    """User CPU milliseconds that a process pays to import a module, when it has others already."""
    return best_child_ms(f"import {after}, {module}") - best_child_ms(f"import {after}")


def best_child_ms(code: str) -> float:
    times = []
    for _ in range(_ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return min(times) * 1e3


def weight_lists(model: Model) -> list[NDArray[np.int16]]:
    """The weights of a model: its constants of 8 bits with more than one axis, as lists."""
    tensors = [tensor for graph in model.graphs for tensor in graph.tensors if len(tensor.shape) > 1]
    return [tensor.data.astype(np.int16).ravel() for tensor in tensors if tensor.data is not None and tensor.data.itemsize == 1]


def encoded_mb_per_second(lists: list[NDArray[np.int16]]) -> float:
    """Weights of 8 bits that become streams in a second."""
    return sum(len(symbols) for symbols in lists) / best_ms(lambda: [encode_symbols(symbols) for symbols in lists]) / 1e3


def main() -> None:
    path = Path(sys.argv[1])
    content = path.read_bytes()
    ours = best_ms(lambda: read_model(content))
    theirs = best_ms(lambda: schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0)))
    sys.stdout.write(f"| {path.name}, read whole | {ours:.1f} | {theirs:.1f} |\n")
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "picture.png"
        Image.fromarray(pixels).resize((1024, 768)).save(picture)
        ours = best_ms(lambda: read_image(picture))
        theirs = best_ms(lambda: np.asarray(Image.open(picture).convert("RGB")))
        sys.stdout.write(f"| PNG of 1024 x 768, decoded | {ours:.1f} | {theirs:.1f} |\n")
    ours = import_ms("npu.hardware.build, npu.hardware.validate", after="npu.hardware.variant, npu.hardware.document")
    theirs = import_ms("jsonschema", after="npu.hardware.variant, npu.hardware.document")
    sys.stdout.write(f"| checks of hardware descriptions, imported | {ours:.1f} | {theirs:.1f} |\n")
    own = encoded_mb_per_second(weight_lists(read_model(content)))
    drawn = [np.random.default_rng(seed).integers(-128, 128, 100_000, np.int16) for seed in range(20)]
    sys.stdout.write(f"weights encoded: {own:.0f} MB/s, random ones {encoded_mb_per_second(drawn):.0f} MB/s\n")


if __name__ == "__main__":
    main()
