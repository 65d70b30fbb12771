"""Verify one command stream: bounds, hazards, SHRAM, reads of bytes that nothing has written, commands without effect.

Operations that the decoder refuses (ranges, alignment) never get here: whoever decodes reports them. A finding names rule,
command and addresses; a clean stream has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from npu.hardware.variant import Variant
from npu.isa.decoded import Decoded
from npu.isa.operations import Dma, Operation
from npu.records import dataclass
from sim.assumptions import assumption
from sim.inconsistent import inconsistent
from sim.memory import NpuMemory
from sim.undefined import undefined
from sim.verify.chains import ChainTracker
from sim.verify.constants import ConstantReader
from sim.verify.footprint import SHRAM, ByteSet, Footprint, footprint
from sim.verify.hazards import HazardTracker
from sim.verify.registers import UnreadWrite, unread_writes
from sim.verify.shram import lut_findings, shram_findings

RULES: Mapping[str, str] = {
    "REFUSED": "every operation is one that the hardware has: ranges, alignments, sizes that belong together",
    "BOUNDS": "every access lies in its region, every write in one that may be written",
    "HAZARD-KERNEL-DMA": "a kernel waits for the transfer whose bytes it touches",
    "HAZARD-DMA-KERNEL": "a transfer waits for the kernel whose bytes it touches",
    "HAZARD-DMA-DMA": "a transfer waits for the transfer whose bytes it touches",
    "HAZARD-BLOCKDEP": "a kernel's first blocks wait for the blocks of the kernel before it that they read",
    "CHAIN": "a map or sums that an operation takes on without memory are what an operation before has left",
    "UNINITIALISED": "every byte that is read has been written, or is a constant or an input",
    "NO-EFFECT": "every wait has something to wait for",
    "UNREAD-WRITE": "every register that is set is read by an operation before it is set again",
    "SHRAM": "the buffers of a kernel's block fit between the boundaries that it sets",
    "UNDOCUMENTED": "every operation is one whose result public descriptions define",
    "UNDEFINED": "no element of an OFM shares bytes with another, and padding is a value of the IFM's type",
    "WEIGHTS": "weights and scale records that a file holds can be decoded, and fill the operation that reads them",
    "INDICES": "indices of rows that a file holds name rows that there are",
    "LUT": "a look-up table lies whole in its area, in a slot of its own size, and transfers into SHRAM stay in that area",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule. `address` is a byte of `region` at which it shows (region -1 is SHRAM)."""

    rule: str
    command_index: int
    word_index: int
    operation: str
    """Kind of the operation, or name of the command that sets a register."""
    message: str
    region: int | None = None
    address: int | None = None
    source: str = ""
    """The operator of the source model that the operation works for, where it is known."""
    tensors: tuple[str, ...] = ()
    """Names of the tensors that the operation reads and writes, where they are known."""


def verify(
    decoded: Sequence[Decoded],
    variant: Variant,
    region_bytes: Mapping[int, int],
    initialised: Iterable[tuple[int, int, int]],
    words: npt.NDArray[np.uint32] | None = None,
    *,
    read_only: Collection[int] = (),
    contents: Mapping[int, npt.NDArray[np.uint8]] | None = None,
) -> list[Finding]:
    """All findings of a stream, in order of its commands.

    `words` are those that `decoded` came from; without them the writes between the operations are not judged. `region_bytes`
    are the sizes of the regions; `initialised` are (region, start, end) of the bytes that hold data when the job starts:
    constants, inputs, variables. `read_only` are the regions that nothing may write, `contents` the bytes of regions that are
    known: without them weights and indices are not judged.
    """
    memory = _WrittenBytes(region_bytes, variant, initialised, read_only)
    hazards, chains = HazardTracker(variant), ChainTracker()
    blank = {region: np.zeros(size, np.uint8) for region, size in region_bytes.items()}
    constants = None if contents is None else ConstantReader(NpuMemory({**blank, **contents}, variant), contents)
    findings: list[Finding] = []
    for step in decoded:
        touched = footprint(step.operation, variant)
        outside = [*memory.outside(touched), *memory.kept(touched)]
        findings += [_finding("BOUNDS", step, *where) for where in outside]
        if not hazards.has_effect(step.operation):
            findings.append(_finding("NO-EFFECT", step, "nothing that it waits for is unfinished", None, None))
        refused = inconsistent(step.operation, variant.shram.lut_bytes)
        if refused is not None:
            findings.append(_finding("REFUSED", step, refused, None, None))
        left_open = undefined(step.operation)
        if left_open is not None:
            findings.append(_finding("UNDEFINED", step, left_open, None, None))
        assumed = assumption(step.operation)
        if assumed is not None:
            findings.append(_finding("UNDOCUMENTED", step, assumed, None, None))
        findings += [_finding("CHAIN", step, text, None, None) for text in chains.step(step.operation)]
        findings += [_finding("SHRAM", step, text, None, None) for text in shram_findings(step.operation, variant)]
        findings += [_finding("LUT", step, text, SHRAM, address) for text, address in lut_findings(step.operation, variant)]
        for conflict in hazards.step(step, touched):
            message = f"{conflict.what} of {_kind(conflict.earlier)}, {conflict.earlier.place}"
            findings.append(_finding(conflict.rule, step, message, conflict.region, conflict.address))
        if not outside:
            unusable = None if constants is None else constants.defect(step.operation, touched)
            if unusable is not None:
                rule, text = unusable
                findings.append(_finding(rule, step, text, None, None))
            if memory.copies(step.operation, touched):
                continue
            findings += [_finding("UNINITIALISED", step, *where) for where in memory.unwritten(touched)]
            memory.write(touched)
    if words is not None:
        findings += [_unread(step) for step in unread_writes(words, decoded, variant)]
    return sorted(findings, key=lambda finding: finding.command_index)


def written_by(decoded: Iterable[Decoded], variant: Variant) -> Iterator[tuple[int, int, int]]:
    """(region, start, end) of what a stream writes outside SHRAM, gaps included: a later job of the file may find it there."""
    for one in decoded:
        for _, part in footprint(one.operation, variant).writes:
            if part.region != SHRAM:
                yield part.region, part.start, part.end


def _unread(findings: UnreadWrite) -> Finding:
    write, again = findings.write, findings.overwrite
    values = ", ".join(f"{name}={value}" for name, value in write.values.items())
    until = "the end" if again is None else f"{again.place} sets the register again"
    message = f"no operation reads {values} before {until}"
    return Finding("UNREAD-WRITE", write.command_index, write.word_index, write.command.name, message)


def _finding(rule: str, decoded: Decoded, message: str, region: int | None, address: int | None) -> Finding:
    return Finding(rule, decoded.command_index, decoded.word_index, _kind(decoded), message, region, address)


def _place(region: int) -> str:
    return "SHRAM" if region == SHRAM else f"region {region}"


def _kind(decoded: Decoded) -> str:
    return type(decoded.operation).__name__


class _WrittenBytes:
    """Which bytes of each region hold data."""

    def __init__(
        self,
        region_bytes: Mapping[int, int],
        variant: Variant,
        initialised: Iterable[tuple[int, int, int]],
        read_only: Collection[int],
    ) -> None:
        self._read_only = read_only
        sizes = {**region_bytes, SHRAM: variant.shram.total_bytes}
        self._written: dict[int, npt.NDArray[np.bool_]] = {region: np.zeros(size, np.bool_) for region, size in sizes.items()}
        self._initialised = [(region, max(0, start), end) for region, start, end in initialised]

    def _holds(self, part: ByteSet) -> npt.NDArray[np.bool_]:
        """Which bytes of a stretch hold data. What did from the start is not marked byte by byte: a file may say gibibytes."""
        held = self._written[part.region][part.start : part.end]
        for region, start, end in self._initialised:
            if region == part.region and start < part.end and part.start < end:
                held = held.copy()
                held[max(0, start - part.start) : max(0, end - part.start)] = True
        return held

    def outside(self, touched: Footprint) -> list[tuple[str, int, int]]:
        return [
            (
                f"its {name} [{part.start:#x}, {part.end:#x}) must lie in {_place(part.region)} of {self._size(part)} bytes",
                part.region,
                part.start,
            )
            for name, part in (*touched.reads, *touched.writes)
            if part.start < 0 or part.end > self._size(part)
        ]

    def kept(self, touched: Footprint) -> list[tuple[str, int, int]]:
        return [
            (f"its {name} must lie in a region that may be written, got {_place(part.region)}", part.region, part.start)
            for name, part in touched.writes
            if part.region in self._read_only
        ]

    def _size(self, part: ByteSet) -> int:
        held = self._written.get(part.region)
        return 0 if held is None else held.size

    def copies(self, operation: Operation, touched: Footprint) -> bool:
        """Whether the operation is a plain copy whose source is written in part; its destination then is in part, too.

        Transfers are whole multiples of 16 bytes, so one of a smaller tensor takes what lies behind it along.
        """
        if not isinstance(operation, Dma) or operation.indices is not None:
            return False
        ((_, source),), ((_, target),) = touched.reads, touched.writes
        held = self._holds(source)
        if not (source.mask.all() and target.mask.all() and source.mask.size == target.mask.size and held.any()):
            return False
        self._written[target.region][target.start : target.end] = held.copy()
        return True

    def unwritten(self, touched: Footprint) -> list[tuple[str, int, int]]:
        unwritten = []
        for name, part in touched.reads:
            missing = part.mask & ~self._holds(part)
            if missing.any():
                address = part.start + int(missing.argmax())
                unwritten.append(
                    (f"its {name} reads {int(missing.sum())} bytes that nothing has written", part.region, address)
                )
        return unwritten

    def write(self, touched: Footprint) -> None:
        for _, part in touched.writes:
            self._written[part.region][part.start : part.end] |= part.mask
