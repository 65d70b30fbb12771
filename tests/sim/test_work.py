"""What a job consists of, in the words in which a report tells what was never measured."""

from __future__ import annotations

from dataclasses import replace

from npu.isa.operations import INT16, Activation, ActivationFunction, Block, ElementwiseMode, PoolingMode, Upscale
from sim.timing import schedule
from sim.work import kinds_of, work_shares

from tests.support.timing import addition, convolution, copy_operation, round_variant, transfer

BLOCK = Block(4, 4, 16)


def test_kinds_tell_data_types_upscaling_and_tables() -> None:
    pool = copy_operation(4, 4, 16, BLOCK)
    assert kinds_of(convolution(4, 4, 16, 32, BLOCK)) == ("convolution",)
    assert kinds_of(replace(pool, mode=PoolingMode.MAX)) == ("max pooling",)
    assert kinds_of(replace(pool, upscale=Upscale.NEAREST)) == ("average pooling with upscaling",)
    assert kinds_of(replace(pool, ifm=replace(pool.ifm, element=INT16))) == ("16-bit data",)
    table = Activation(-128, 127, ActivationFunction.LUT_0)
    assert kinds_of(addition(4, 4, 16, BLOCK, mode=ElementwiseMode.MIN, activation=table)) == ("MIN", "tables and functions")
    assert kinds_of(transfer(64)) == ()


def test_shares_are_of_all_cycles_transfers_included() -> None:
    stream = [transfer(4096), convolution(8, 8, 16, 32, BLOCK), addition(8, 8, 16, BLOCK)]
    trace = schedule(stream, round_variant(), stream_words=0)
    shares = work_shares([(stream, trace), (stream, trace)])
    assert set(shares) == {"convolution", "ADD"}
    assert 0 < shares["ADD"] < shares["convolution"] + shares["ADD"] < 1
    assert work_shares([]) == {}
