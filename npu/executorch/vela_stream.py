"""Vela's output as ExecuTorch's Ethos-U backend keeps it: named blocks, each with a header of 32 bytes.

Source: backends/arm/arm_vela.py and backends/arm/runtime/VelaBinStream.h of ExecuTorch. The blocks hold what Vela's raw output
(.npz) has, so they become the same arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from npu.errors import ModelError

_HEADER = struct.Struct("<16sIB11s")
_ALIGNMENT = 16
_BEGIN, _END = "vela_bin_stream", "vela_end_stream"
_BLOCKS = (_BEGIN, "cmd_data", "weight_data", "scratch_size", "inputs", "outputs", _END)
_MAP_NUMBERS = 9
"""Of an input or output: six extents, bytes of an element, offset, region."""

Arrays = dict[str, NDArray[np.generic]]


def arrays_of(stream: bytes, where: str) -> Arrays:
    """The entries of Vela's raw output by name. ModelError names `where` the stream stands, and the block."""
    blocks = dict(_blocks(stream, where))
    missing = [
        name for name in (_BEGIN, "cmd_data", "weight_data", "scratch_size", "inputs", "outputs", _END) if name not in blocks
    ]
    if missing:
        raise ModelError(f"{where}: must have the block '{missing[0]}' of a Vela stream, got {', '.join(blocks) or 'none'}")
    result: Arrays = {name: np.frombuffer(blocks[name], np.uint8) for name in ("cmd_data", "weight_data")}
    if len(blocks["scratch_size"]) != 4:
        raise ModelError(f"{where}: block 'scratch_size' must have 4 bytes, got {len(blocks['scratch_size'])}")
    result["scratch_size"] = np.frombuffer(blocks["scratch_size"], "<u4")
    for kind in ("input", "output"):
        result.update(_maps(kind, blocks[f"{kind}s"], where))
    return {**result, **_ALWAYS}


_ALWAYS: Arrays = {
    "variable_region": np.zeros(0, np.int64),
    "weight_region": np.array([0]),
    "scratch_region": np.array([1]),
    "scratch_fast_size": np.array([0]),
}
"""What the backend takes for granted."""


def _blocks(stream: bytes, where: str) -> Iterator[tuple[str, bytes]]:
    position = 0
    while position < len(stream):
        if position + _HEADER.size > len(stream):
            raise ModelError(f"{where}: a block's header must lie inside the {len(stream)} bytes, got one at {position}")
        title, size, is_external, _ = _HEADER.unpack_from(stream, position)
        name, start = title.partition(b"\0")[0].decode("latin-1"), position + _HEADER.size
        if start + size > len(stream):
            raise ModelError(f"{where}: block {name!r} must lie inside the {len(stream)} bytes, got {size} from {start}")
        if is_external:
            raise ModelError(f"{where}: block {name!r} must lie in the delegate itself, got a reference to data elsewhere")
        yield name, stream[start : start + size]
        if name == _END:
            return
        position = start + -(-size // _ALIGNMENT) * _ALIGNMENT


def _maps(kind: str, content: bytes, where: str) -> Arrays:
    count = int.from_bytes(content[:4], "little")
    if len(content) != 4 * (1 + _MAP_NUMBERS * count):
        raise ModelError(
            f"{where}: block '{kind}s' must have {_MAP_NUMBERS} numbers for each, got {len(content)} bytes for {count}"
        )
    numbers = np.frombuffer(content, "<i4", offset=4).reshape(count, _MAP_NUMBERS)
    names = ("elem_size", "offset", "region")
    return {f"{kind}_shape": numbers[:, :6], **{f"{kind}_{name}": numbers[:, 6 + k] for k, name in enumerate(names)}}
