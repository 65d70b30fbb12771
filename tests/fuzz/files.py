"""Files beside the model, broken: descriptions, budgets, arrays, listings, labels, images; and bytes as weight streams."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np

from npu.cli.main import main
from npu.explore import point, space, sweep
from npu.isa.operations import Traversal
from npu.isa.weight_stream.decode import decode_weights
from npu.isa.weight_stream.encode import encode_weights
from npu.isa.weight_stream.order import WeightOrder

from tests.end_to_end.test_hostile_inputs import COMMANDS, make_good_files, mutated
from tests.fuzz.answer import attempt

NAMES = tuple(COMMANDS)
MOST_POINTS, MOST_MEASURED = 2_000, 100
"""Of a sweep: a study may honestly ask for a million, which take hours. Points after the first ones get no result."""


@cache
def _good() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    with contextlib.redirect_stdout(io.StringIO()):
        make_good_files(folder)
    return folder


def case(number: int) -> str:
    """One command with one broken file: a result, or one line that says what is wrong."""
    name = NAMES[number % len(NAMES)]
    base, arguments = COMMANDS[name]
    good = _good()
    (good / "broken" / "0").mkdir(parents=True, exist_ok=True)
    path = good / "broken" / "0" / base
    path.write_bytes(mutated((good / base).read_bytes(), Random(number)))
    out, err = io.StringIO(), io.StringIO()
    fewer = mock.patch.object(space, "MOST_POINTS", MOST_POINTS)
    quick = mock.patch.object(sweep, "measure", _first_measured())
    with fewer, quick, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments(str(path), good))
    text = err.getvalue()
    assert code in (0, 1, 3), f"{name}: exit code {code}"
    assert "\x1b" not in text, f"{name}: an escape sequence in {text[:100]!r}"
    if code == 1 and text:
        lines = text.splitlines()
        assert all(line.startswith(("npu: error: ", "npu: check failed: ")) for line in lines), f"{name}: {text[:300]}"
        assert len(lines) == 1 or name == "study", f"{name}: more than one line: {text[:300]}"
        assert len(set(lines)) == len(lines), f"{name}: a reason twice: {text[:300]}"  # a study: each reason once
        assert max(map(len, lines)) < 1000, f"{name}: {max(map(len, lines))} characters"
    return f"{name}: {'done' if code == 0 else 'refused'}"


def _first_measured() -> Callable[[point.Point], object]:
    """`measure` for the first points, a row without result for all others."""
    numbers = count()
    return lambda one: point.measure(one) if next(numbers) < MOST_MEASURED else point.failed("not measured")


def weight_stream(number: int) -> str:
    """Bits of a valid weight stream flipped, or any bytes: weights of the asked shape, or an error."""
    rng = np.random.default_rng([number, 6])
    shape = tuple(int(size) for size in rng.integers(1, (20, 4, 4, 40)))
    traversal = (Traversal.DEPTH_FIRST, Traversal.PART_KERNEL_FIRST)[int(rng.integers(2))]
    order = WeightOrder(block_depth=int(rng.choice([8, 16, 32])), traversal=traversal, ifm_bits=int(rng.choice([8, 16])))
    stream = encode_weights(rng.integers(-255, 256, shape).astype(np.int16), order)
    data = np.frombuffer(stream, np.uint8).copy()
    if rng.random() < 0.3:
        data = rng.integers(0, 256, int(rng.integers(0, 300)), np.uint8)
    for _ in range(int(rng.integers(1, 5)) if data.size else 0):
        data[int(rng.integers(data.size))] ^= 1 << int(rng.integers(8))
    weights = attempt("weights", lambda: decode_weights(data.tobytes(), shape, order))
    assert weights.shape == shape
    assert abs(weights).max() <= 255
    return "weights: decoded"
