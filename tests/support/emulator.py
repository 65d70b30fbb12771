"""Compiled rows run on an emulated aarch64 CPU (qemu-aarch64, with the cross compiler's C library).

Rows hold addresses of this process. An image has a copy of every array that they may refer to, at addresses of the emulated
process; words that are addresses of this process are changed to those. But memories of the NPU, and lists of numbers smaller
than addresses, are data, whatever they look like.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from npu.native import cpu, store
from npu.records import dataclass
from sim.functional.kernels.run import run
from sim.functional.prepared import PreparedStream
from sim.memory import NpuMemory

from tests.support.processes import environment

GROUP = "sim.functional.kernels"
_MAKE = """
import sys
from npu.native import make, cpu
sys.stdout.buffer.write(make.make(sys.argv[1], cpu.named(sys.argv[2])))
"""
_BASE, _GAP = 1 << 32, 256
_HARNESS = r"""
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
extern int entry(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t*) __asm__("ENTRY");
int main(int count, char **names) {
    int64_t size = 0, *task, result;
    FILE *file = fopen(names[1], "r+b");
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    char *image = mmap((void *)BASE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fileno(file), 0);
    if (image != (char *)BASE) return 2;
    for (task = (int64_t *)image; task[0]; task += 6) {
        if (entry(task[0], task[1], task[2], task[3], 0, task[4], 0, &result)) return 3;
        task[5] = result;
    }
    return 0;
}
"""
"""Runs tasks until one has no rows: where rows are, how many, the same of bases, dot products or not, place of the result."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A program with the kernels of a tier."""

    program: Path

    @staticmethod
    def build(tier: cpu.CpuTier, folder: Path) -> Emulator:
        """Make the library, in a process of its own, and link it."""
        kernels, source, program = folder / "kernels.o", folder / "harness.c", folder / "harness"
        command = [sys.executable, "-c", _MAKE, GROUP, tier.name]
        made = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
        code = store.decode(GROUP, tier, made.stdout)
        assert code is not None
        kernels.write_bytes(code)
        source.write_text(_HARNESS.replace("ENTRY", run.symbol).replace("BASE", f"{_BASE}L"))
        compiler = ["aarch64-linux-gnu-gcc", "-O1", "-static"]
        subprocess.run([*compiler, source, kernels, "-lm", "-o", program], check=True)
        return Emulator(program)

    def run(self, tasks: Sequence[tuple[PreparedStream, NpuMemory, bool]], folder: Path) -> list[int]:
        """Execute streams on their memories, which change, with dot products or not. How many rows were executed of each."""
        image = _Image(8 * (6 * len(tasks) + 1))
        for stream, memory, _ in tasks:
            for array in _arrays([stream, memory]):
                image.add(array)
        header = [
            (image.address(stream.rows), stream.rows.size, image.address(memory.bases), memory.bases.size, with_dot_product, 0)
            for stream, memory, with_dot_product in tasks
        ]
        path = folder / "image"
        data = [array for _, memory, _ in tasks for array in (*memory.regions.values(), memory.shram)]
        path.write_bytes(image.content(np.array(header, np.int64), data))
        subprocess.run(["qemu-aarch64", "-cpu", "max", self.program, path], check=True)
        done = np.fromfile(path, np.uint8)
        for _, memory, _ in tasks:
            for data in (*memory.regions.values(), memory.shram):
                start = image.address(data) - _BASE
                data[:] = done[start : start + data.size].reshape(data.shape)
        return [int(result) for result in done[: 48 * len(tasks)].view(np.int64)[5::6]]


class _Image:
    def __init__(self, reserved: int) -> None:
        self._end, self._places = reserved, dict[int, tuple[int, np.ndarray]]()

    def add(self, array: np.ndarray) -> None:
        """Give an array a place, with a gap after it, for kernels may read beyond the end of some."""
        start = array.__array_interface__["data"][0]
        if array.nbytes == 0 or (start in self._places and self._places[start][1].nbytes >= array.nbytes):
            return
        self._end = -(-(self._end + _GAP) // 64) * 64
        self._places[start] = self._end, array
        self._end += array.nbytes

    def address(self, array: np.ndarray) -> int:
        return int(self._moved(np.array([array.__array_interface__["data"][0]]))[0])

    def content(self, header: np.ndarray, data: Sequence[np.ndarray]) -> bytes:
        """All bytes, with addresses of the emulated process but in arrays of `data`."""
        whole = np.zeros(-(-(self._end + _GAP) // 8) * 8, np.uint8)
        for place, array in self._places.values():
            whole[place : place + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        words = whole.view(np.int64)
        words[:] = self._moved(words)
        lists = [array for _, array in self._places.values() if array.ndim == 1 and array.dtype.itemsize < words.itemsize]
        for array in (*data, *lists):
            place = self.address(array) - _BASE
            whole[place : place + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        words[: header.size] = header.reshape(-1)
        return whole.tobytes()

    def _moved(self, words: np.ndarray) -> np.ndarray:
        """Words with those that lie in an array changed to where its copy is."""
        starts = np.array(sorted(self._places))
        ends = np.array([start + self._places[start][1].nbytes for start in starts.tolist()])
        places = np.array([self._places[start][0] for start in starts.tolist()])
        found = np.maximum(np.searchsorted(starts, words, "right") - 1, 0)
        inside = (words >= starts[found]) & (words <= ends[found])
        return np.where(inside, _BASE + places[found] + (words - starts[found]), words)


def _arrays(value: object, seen: set[int] | None = None) -> Iterator[np.ndarray]:
    """Whatever arrays an object holds, as the whole ones that they are parts of."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, (int, str, bytes, float, type, type(None))):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        if isinstance(value.base, np.ndarray):
            yield from _arrays(value.base, seen)
        else:
            yield value
        return
    parts: list[object] = []
    if isinstance(value, Mapping):
        parts = [*value.values()]
    elif isinstance(value, (list, tuple)):
        parts = [*value]
    elif type(value).__module__.split(".")[0] in ("sim", "npu"):
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        parts = [getattr(value, name) for name in names if name != "__weakref__" and hasattr(value, name)]
        parts += [*getattr(value, "__dict__", {}).values()]
    for part in parts:
        yield from _arrays(part, seen)
