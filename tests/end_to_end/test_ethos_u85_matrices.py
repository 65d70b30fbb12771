"""Products of two computed matrices and transposed OFMs, which Ethos-U85 has: exact, their streams without findings."""

from __future__ import annotations

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.ethos_u85.micro_blocks import choices
from npu.isa.operations import Block, Convolution, KernelOperation, OfmTranspose, Pooling
from npu.isa.shram import BufferProblem, Work

from tests.support.architectures.layers import Layers
from tests.support.ethos_u85 import TARGETS, exact_operations


def products(operations: list[KernelOperation]) -> list[Convolution]:
    return [one for one in operations if isinstance(one, Convolution) and not one.weights]


def transposes(operations: list[KernelOperation]) -> list[Pooling]:
    swapped = OfmTranspose.HCW
    return [
        one for one in operations if isinstance(one, Pooling) and one.options is not None and one.options.transpose is swapped
    ]


def drawn_product(rng: np.random.Generator) -> bytes:
    """Two matrices, each as it comes or transposed, with leading dimensions now and then; a table behind some."""
    dtype = DType.INT8 if rng.integers(3) else DType.INT16
    net = Layers(int(rng.integers(1 << 30)), dtype)
    rows, inner, columns = (int(extent) for extent in rng.choice([1, 2, 5, 16, 17, 40, 100], 3))
    leading = tuple(int(extent) for extent in rng.integers(1, 4, rng.integers(0, 3)))
    adj_x, adj_y = (bool(number) for number in rng.integers(0, 2, 2))
    given, steps = {"scale": 0.02, "zero_point": 2}, {"scale": 0.1 * inner**0.5, "zero_point": -3}
    if dtype is DType.INT16:
        given, steps = {"scale": 0.0005, "zero_point": 0}, {"scale": 0.005 * inner**0.5}
    x = net.b.input((1, *leading, *((inner, rows) if adj_x else (rows, inner))), dtype, **given)
    y = net.b.input((1, *leading, *((columns, inner) if adj_y else (inner, columns))), dtype, **given)
    shape = (1, *leading, rows, columns)
    product = net.make("BATCH_MATMUL", [x, y], shape, at.BatchMatMulOptions(adj_x, adj_y), **steps)
    return net.finish(net.table("LOGISTIC", product) if rng.integers(2) else product)


def assert_random_products_are_exact(target: str, count: int, seed: int) -> None:
    rng = np.random.default_rng([seed, TARGETS.index(target)])
    for number in range(count):
        assert products(exact_operations(drawn_product(rng), target, seed=number))


@pytest.mark.parametrize("target", TARGETS)
def test_random_products_are_exact(target: str) -> None:
    assert_random_products_are_exact(target, 12, 1)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_products_are_exact(target: str) -> None:
    assert_random_products_are_exact(target, 200, 2)


@pytest.mark.parametrize("target", TARGETS)
def test_an_attention_multiplies_in_the_array(target: str) -> None:
    net = Layers(3)
    made = products(exact_operations(net.finish(net.attention(net.input(37, 64), 4)), target))
    assert len(made) == 2 * 4
    assert all(one.ifm2 is not None and not one.scales for one in made)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_older", [False, True])
def test_a_product_waits_for_the_matrix_that_is_its_weights(target: str, *, is_older: bool) -> None:
    """It reads that in an order of its own, whatever the kernels before it write in theirs."""
    net = Layers(5)
    given, weights = net.input(40, 32), net.table("TANH", net.input(24, 32))
    x = net.table("TANH", given) if is_older else given
    (product,) = products(exact_operations(net.finish(net.matmul(x, weights, transposed=True)), target))
    assert product.blockdep == 0


ORDERS = (((17, 40), (0, 2, 1)), ((6, 9, 33), (0, 2, 3, 1)), ((24, 5, 7), (0, 3, 1, 2)), ((3, 100, 20), (0, 1, 3, 2)))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=str)
@pytest.mark.parametrize(("shape", "order"), ORDERS)
def test_transposes_are_exact(shape: tuple[int, ...], order: tuple[int, ...], dtype: DType) -> None:
    net = Layers(1, dtype)
    content = net.finish(net.transpose(net.table("TANH", net.input(*shape)), *order))
    for target in TARGETS:
        exact_operations(content, target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_block_that_is_stored_transposed_is_no_wider_than_blocks_can_be(target: str) -> None:
    net = Layers(2)
    content = net.finish(net.transpose(net.table("TANH", net.input(4, 32, 400)), 0, 1, 3, 2))
    for swapped in transposes(exact_operations(content, target)):
        assert swapped.block.depth <= load_variant(target).accelerator.max_block.width


@pytest.mark.parametrize("target", TARGETS)
def test_who_reads_a_transposed_map_waits_for_all_of_it(target: str) -> None:
    """Its blocks are not written in the order in which they are read."""
    net = Layers(2)
    y = net.transpose(net.conv(net.input(8, 40, 48), 48, 1), 0, 1, 3, 2)
    operations = exact_operations(net.finish(net.conv(y, 16, 1)), target)
    (swapped,) = transposes(operations)
    behind = operations[operations.index(swapped) + 1]
    assert behind.blockdep == 0
    assert (swapped.ofm.width, swapped.ofm.depth) == (swapped.ifm.width, swapped.ifm.depth)


def compared(kind: str, dtype: DType, *shape: int) -> bytes:
    """An operator that compares the channels of a map."""
    net = Layers(4, dtype)
    x = net.table("TANH", net.input(*shape))
    if kind == "SOFTMAX":
        return net.finish(net.softmax(x))
    if kind == "REDUCE_MAX":
        largest = net.make(kind, [x, net.ints(3)], (1, *shape[:2]), at.ReducerOptions(False), **net.steps(x))
        return net.finish(largest)
    return net.finish(net.b.op(kind, [x, net.ints(3)], (1, *shape[:2]), DType.INT64, attributes=at.ArgMaxOptions(DType.INT64)))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("SOFTMAX", DType.INT8), ("SOFTMAX", DType.INT16), ("ARG_MAX", DType.INT8), ("REDUCE_MAX", DType.INT8)],
)
def test_channels_that_are_compared_become_columns_where_that_costs_less(kind: str, dtype: DType) -> None:
    made = [len(transposes(exact_operations(compared(kind, dtype, 40, 50, 60), target))) for target in TARGETS]
    assert max(made) > 0
    assert not transposes(exact_operations(compared(kind, dtype, 1, 1, 60), TARGETS[0]))


def test_each_array_has_its_micro_blocks_for_products() -> None:
    def of(target: str) -> set[Block]:
        problem = BufferProblem(work=Work.PRODUCT, ofm=(1, 40, 40), ifm_depth=64, ifm_bits=8, reads_ifm2=True)
        return set(choices(problem, load_variant(target)))

    assert of("ethos-u85-128") == {Block(1, 2, 8)}
    assert of("ethos-u85-256") == {Block(1, 4, 8), Block(2, 2, 8)}
    assert of("ethos-u85-512") == {Block(2, 2, 16), Block(1, 4, 16)}
    assert of("ethos-u85-1024") == {Block(2, 2, 32), Block(1, 4, 32)}
    assert of("ethos-u85-2048") == {Block(2, 2, 64), Block(1, 4, 64)}
