"""Files of several Vela versions on the simulator, compared with LiteRT's reference kernels: what differs, and where.

Vela 5.2.0 is the installed one; other versions live in environments of their own under a folder, made by `environment`.
FULLY_CONNECTED is compared by the hardware's rounding; see `tests.support.litert`.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from npu.graph.dtype import DType
from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Graph, Model, Op
from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from sim.delegate import EthosUDelegate

from tests.fuzz.litert_child import LiteRt
from tests.support.interpreters import run
from tests.support.litert import with_convolutions

INSTALLED = "5.2.0"
VERSIONS = ("3.12.0", "4.2.0", "5.0.0", INSTALLED)
TARGETS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")
_REQUIREMENTS = {"3.12.0": ("numpy<2", "setuptools<80")}
"""Vela 3.12 overflows with the integer rules of NumPy 2."""
_QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
_WITHOUT_VALUES = (DType.RESOURCE, DType.VARIANT, DType.STRING)
_REFERENCE_SECONDS = 300
_WITHOUT = {
    "refused": "LiteRT refuses it",
    "died": "LiteRT crashes",
    "slow": f"no result within {_REFERENCE_SECONDS} s",
}


@dataclass(frozen=True, slots=True)
class Result:
    """`status` is "exact", "differs", "refused" (by that Vela), "cpu" (it places nothing) or "failed" (our side)."""

    status: str
    note: str = ""


def environment(version: str, folder: Path) -> Path:
    """The `vela` of a version: the installed one, or one that is installed in `folder` when it is not there yet."""
    if version == INSTALLED:
        return Path(sys.executable).with_name("vela")
    home = folder / f"vela-{version}"
    if not (home / "bin" / "vela").exists():
        venv.create(home, with_pip=True)
        packages = (f"ethos-u-vela=={version}", *_REQUIREMENTS.get(version, ()))
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", *packages], check=True)
    return home / "bin" / "vela"


def compile_with(vela: Path, model: bytes, target: str, *arguments: str, seconds: int = 600) -> bytes:
    """The file that a Vela makes; RuntimeError with the last line of its output if it makes none."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.tflite"
        source.write_bytes(model)
        command = [str(vela), str(source), "--accelerator-config", target, "--output-dir", folder, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"no result within {seconds} s") from error
        compiled = Path(folder) / "model_vela.tflite"
        if done.returncode != 0 or not compiled.exists():
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"exit code {done.returncode}")
        return compiled.read_bytes()


def simulate(compiled: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Outputs of a compiled file on the simulator, operators of the CPU on this project's kernels."""
    return run(CpuInterpreter(model_content=compiled, experimental_delegates=[EthosUDelegate()]), inputs)


@cache
def _litert() -> LiteRt:
    child = LiteRt(_REFERENCE_SECONDS)
    atexit.register(child.stop)
    return child


def reference(model: bytes, inputs: list[Array]) -> list[Array]:
    """`run_reference` with the hardware's FULLY_CONNECTED in a process of its own: some files crash LiteRT."""
    answer = _litert().outputs(write_model(with_convolutions(read_model(model))), inputs)
    if isinstance(answer, str):
        raise RuntimeError(_WITHOUT[answer])
    return answer


def difference(found: Sequence[Array], expected: Sequence[Array]) -> str:
    """Empty if all outputs are equal, else how many values differ and by how much at most."""
    wrong, largest, total = 0, 0.0, 0
    for ours, theirs in zip(found, expected, strict=True):
        total += theirs.size
        ours = ours.reshape(theirs.shape)
        unequal = ours != theirs
        if theirs.dtype.kind == "f":
            unequal &= ~(np.isnan(ours) & np.isnan(theirs))
        if unequal.any():
            wrong += int(unequal.sum())
            largest = max(largest, float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64))[unequal].max()))
    return f"{wrong} of {total} values, at most {largest:g}" if wrong else ""


def compare(model: bytes, vela: Path, target: str, cases: Sequence[tuple[list[Array], list[Array]]], *options: str) -> Result:
    """Compile, simulate on every (inputs, expected outputs), judge."""
    try:
        compiled = compile_with(vela, model, target, *options)
    except RuntimeError as error:
        return Result("refused", str(error)[:160])
    return examine(compiled, cases)


def examine(compiled: bytes, cases: Sequence[tuple[list[Array], list[Array]]]) -> Result:
    """Simulate a file on every (inputs, expected outputs), judge."""
    if not is_compiled(read_model(compiled)):
        return Result("cpu")
    notes = [difference(simulate(compiled, inputs), expected) for inputs, expected in cases]
    worst = next((note for note in notes if note), "")
    return Result("differs", worst) if worst else Result("exact")


def single_operators(model: Model, inputs: list[Array]) -> Iterator[tuple[int, Op, bytes, list[Array], list[Array]]]:
    """Every quantized operator cut out of the first subgraph: index, operator, model, its inputs and its expected outputs.

    The inputs are the values that the reference kernels computed for the whole model.
    """
    graph = model.graphs[0]
    made = {index for op in graph.ops for index in op.outputs}
    computed = tuple(sorted(index for index in made if graph.tensors[index].dtype not in _WITHOUT_VALUES))
    inside = replace(model, graphs=(replace(graph, outputs=computed), *model.graphs[1:]), signatures=())
    values = dict(zip(computed, reference(write_model(inside), inputs), strict=True))
    values.update(zip(graph.inputs, inputs, strict=True))
    for index, op in enumerate(graph.ops):
        arrays = [fromkey for fromkey in dict.fromkeys(op.inputs) if fromkey >= 0 and graph.tensors[fromkey].data is None]
        if not all(array in values for array in arrays) or not arrays:
            continue
        if any(graph.tensors[output].dtype not in _QUANTIZED for output in op.outputs):
            continue
        cut = replace(model, graphs=(_cut(graph, op, tuple(arrays)),), signatures=(), metadata={})
        yield index, op, write_model(cut), [values[array] for array in arrays], [values[output] for output in op.outputs]


def _cut(graph: Graph, op: Op, inputs: tuple[int, ...]) -> Graph:
    used = [fromkey for fromkey in dict.fromkeys((*op.inputs, *op.outputs)) if fromkey >= 0]
    place = {tensor: position for position, tensor in enumerate(used)}
    moved = replace(
        op,
        inputs=tuple(place.get(item, item) for item in op.inputs),
        outputs=tuple(place[output] for output in op.outputs),
    )
    tensors = tuple(replace(graph.tensors[tensor], is_variable=False) for tensor in used)
    return Graph("cut", tensors, (moved,), tuple(place[item] for item in inputs), moved.outputs)


def differing_operators(model: bytes, vela: Path, target: str, inputs: list[Array]) -> dict[str, str]:
    """Kinds of operators that, alone and on the reference's values, differ: kind to how many and how far."""
    found: dict[str, list[str]] = {}
    seen: dict[bytes, str] = {}
    for _, op, cut, arrays, expected in single_operators(read_model(model), inputs):
        if cut not in seen:
            result = compare(cut, vela, target, [(arrays, expected)])
            seen[cut] = result.note if result.status == "differs" else ""
        if seen[cut]:
            found.setdefault(op.name, []).append(seen[cut])
    return {kind: f"{len(notes)}: {notes[0]}" for kind, notes in found.items()}
