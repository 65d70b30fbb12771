"""Buffers that have memories of their own: what the verifier says of blocks that do not fit them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npu
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.encode import encode
from npu.isa.ethos_u85.micro_blocks import MICRO_BLOCKS
from npu.isa.operations import (
    Block,
    Dma,
    DmaIndices,
    DmaSide,
    DmaStride,
    DmaWait,
    Elementwise,
    KernelOperation,
    Operation,
    Resizing,
    Stop,
    WeightedOperation,
)
from npu.tflite.writer import write_model
from sim.verify.shram import shram_findings
from sim.verify.verifier import verify

from tests.support.single_ops import binary, conv, pool, resize

SIZES = tuple(MICRO_BLOCKS)
MODELS = {
    "convolution": conv(ifm=(1, 24, 24, 64), out_channels=64),
    "depthwise": conv(kind="DEPTHWISE_CONV_2D", ifm=(1, 24, 24, 64)),
    "pool": pool(ifm=(1, 24, 24, 64)),
    "addition": binary("ADD", ((1, 16, 16, 40), (1, 16, 16, 40))),
    "column by row": binary("ADD", ((1, 40, 130, 1), (1, 1, 1, 48))),
    "resize": resize((16, 160), (9, 150)),
}


def kernels(name: str, target: str) -> Iterator[KernelOperation]:
    for part in npu.compile(write_model(MODELS[name]), target=target).compiled_model.partitions:
        yield from (operation for operation in part.operations if isinstance(operation, KernelOperation))


def findings(operation: KernelOperation, target: str, **changed: Any) -> list[str]:
    return list(shram_findings(replace(operation, **changed), load_variant(target)))


@pytest.mark.parametrize("macs", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_blocks_that_the_compiler_chooses_fit(name: str, macs: int) -> None:
    target = f"ethos-u85-{macs}"
    assert not [text for operation in kernels(name, target) for text in findings(operation, target)]


@pytest.mark.parametrize("macs", SIZES)
@pytest.mark.parametrize("name", ["convolution", "depthwise", "pool"])
def test_a_block_that_is_too_large_is_found(name: str, macs: int) -> None:
    target = f"ethos-u85-{macs}"
    operation = next(kernels(name, target))
    large = findings(operation, target, block=Block(128, 128, 1024))
    assert any("its accumulators must fit" in text for text in large)
    assert any("its IFM block must fit" in text for text in large)


@pytest.mark.parametrize("macs", SIZES)
def test_a_micro_block_of_another_kind_of_work_is_found(macs: int) -> None:
    target = f"ethos-u85-{macs}"
    operation = next(one for one in kernels("depthwise", target) if isinstance(one, WeightedOperation))
    assert operation.options is not None
    wrong = [one.extent for one in MICRO_BLOCKS[macs] if one.extent.depth != operation.options.ublock.depth]
    for ublock in wrong:
        options = replace(operation.options, ublock=ublock)
        assert any("its micro-block must be" in text for text in findings(operation, target, options=options))
    assert bool(wrong) is (macs != 512)


WIDEST = {128: 6, 256: 12, 512: 28, 1024: 56, 2048: 116}
"""Columns of whole micro-blocks whose places 273 / 256 apart span two bricks less than there is room for, and a part."""


@pytest.mark.parametrize("macs", SIZES)
def test_the_row_of_a_resize_has_room_for_so_many_columns(macs: int) -> None:
    target = f"ethos-u85-{macs}"
    operation = next(one for one in kernels("resize", target) if isinstance(one, Resizing))
    widest, block = WIDEST[macs], operation.block
    assert findings(operation, target, block=replace(block, width=widest)) == []
    assert any("columns wide" in text for text in findings(operation, target, block=replace(block, width=widest + 4)))


def test_elementwise_operations_have_no_such_buffers() -> None:
    operation = next(one for one in kernels("addition", "ethos-u85-128") if isinstance(one, Elementwise))
    assert not findings(operation, "ethos-u85-128", block=Block(128, 128, 1024))


@pytest.mark.parametrize("macs", SIZES)
def test_where_both_operands_are_repeated_a_row_has_room_for_so_many_columns(macs: int) -> None:
    target, brick = f"ethos-u85-{macs}", 16 * 6
    operation = next(one for one in kernels("column by row", target) if isinstance(one, Elementwise))
    assert operation.repeats_both_operands
    assert operation.options is not None
    accelerator, height = load_variant(target).accelerator, operation.options.ublock.height
    widest = accelerator.chaining_buffer_bytes // brick // height
    assert not findings(operation, target, block=replace(operation.block, width=widest))
    assert any("columns wide" in text for text in findings(operation, target, block=replace(operation.block, width=widest + 1)))
    assert operation.ifm2 is not None
    one = replace(operation.ifm2, height=operation.ofm.height, width=operation.ofm.width)
    assert not findings(operation, target, ifm2=one, block=replace(operation.block, width=widest + 1))


@pytest.mark.parametrize("where", ["file", "copy", "computed"])
@pytest.mark.parametrize(("last", "is_found"), [(3, False), (4, True), (-1, True)])
def test_an_index_that_no_row_has_is_found(where: str, last: int, is_found: bool) -> None:
    """In the file or a copy of it; what an index is that something else has overwritten is not known."""
    variant = load_variant("ethos-u85-256")
    constants = np.zeros(128, np.uint8)
    constants[:16] = np.array([2, 0, 3, last], "<i4").view(np.uint8)
    region, address = (0, 0) if where == "file" else (1, 0)
    copies = {"file": [], "copy": [DmaSide(0, 0)], "computed": [DmaSide(0, 0), DmaSide(1, 32)]}
    copied = [Dma(source=source, destination=DmaSide(1, 0), length_bytes=16) for source in copies[where]]
    indices = DmaIndices(region, address, maximum=3, skip_bytes=0, is_of_destination=False)
    rows = {"length_bytes": 16, "rows": 4, "indices": indices}
    gather = Dma(
        source=DmaSide(0, 64, DmaStride.ROWS, steps=(16, 0)), destination=DmaSide(1, 64, DmaStride.ROWS, steps=(16, 0)), **rows
    )
    operations: list[Operation] = [*(one for copy in copied for one in (copy, DmaWait(0))), gather, DmaWait(0), Stop()]
    decoded = decode(encode(operations, variant), variant)
    given = [(0, 0, 128), (1, 0, 48)]
    found = verify(decoded, variant, {0: 128, 1: 128}, given, contents={0: constants})
    expected = ["INDICES"] if is_found and where != "computed" else []
    assert [one.rule for one in found] == expected
    assert all(f"[0, 3], got {last}" in one.message for one in found)
    assert verify(decoded, variant, {0: 128, 1: 128}, given) == []
