"""What reading models and pictures costs here and with the packages that do it too: python -m benchmarks.codecs MODEL.tflite

Best of 20 rounds, user CPU time. LiteRT's generated classes stand for the `flatbuffers` package, Pillow for pictures.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from PIL import Image

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


if __name__ == "__main__":
    main()
