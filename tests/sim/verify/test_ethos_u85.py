"""Buffers that have memories of their own: what the verifier says of blocks that do not fit them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import npu
from npu.hardware.catalogue import load_variant
from npu.isa.ethos_u85.micro_blocks import MICRO_BLOCKS
from npu.isa.operations import Block, Elementwise, KernelOperation, Resizing, WeightedOperation
from npu.tflite.writer import write_model
from sim.verify.shram import shram_findings

from tests.support.single_ops import binary, conv, pool, resize

SIZES = tuple(MICRO_BLOCKS)
MODELS = {
    "convolution": conv(ifm=(1, 24, 24, 64), out_channels=64),
    "depthwise": conv(kind="DEPTHWISE_CONV_2D", ifm=(1, 24, 24, 64)),
    "pool": pool(ifm=(1, 24, 24, 64)),
    "addition": binary("ADD", ((1, 16, 16, 40), (1, 16, 16, 40))),
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
