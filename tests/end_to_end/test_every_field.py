"""Every field of a hardware description has an effect: on the compiled file, on the time, on a report, or it is refused."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from npu.compiler.block_config import BlockChooser
from npu.errors import UserError
from npu.graph.attributes import FusedActivation
from npu.graph.cpu_cost import cpu_cycles
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.hardware.catalogue import load_variant
from npu.hardware.validate import check_variant, field_range
from npu.hardware.variant import Product, Variant
from npu.isa.operations import (
    AccumulatorFormat,
    AddressRange,
    Block,
    ElementType,
    ElementwiseMode,
    KernelOperation,
    OperandScaling,
    ShramLayout,
)
from npu.isa.rules import check_operation
from npu.rendering.console import variant_row
from npu.reports.operator_map import map_of_compiled
from npu.tflite.reader import read_model
from npu.toolchain.compile import compile_in_memory
from npu.toolchain.session import Executable
from npu.toolchain.timing import time_executable
from sim.container import CompiledFile
from sim.timing import schedule
from sim.verify.shram import shram_findings

from tests.support import single_ops
from tests.support.timing import addition, convolution, copy_operation, feature_map, transfer

DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"
MAP = (1, 24, 24, 24)
MAPS = (MAP, MAP)


@cache
def models() -> dict[str, Model]:
    """Small models that together use every unit of the NPU that the compiler uses, and the CPU's cost tables."""
    wide = single_ops.tensor((24, 3, 3, 24), DType.INT8, data=np.random.default_rng(1).integers(-9, 9, (24, 3, 3, 24)))
    return {
        "network": read_model(DIGITS.read_bytes()),
        "convolution": single_ops.conv(ifm=MAP, out_channels=24, weights=wide, activation=FusedActivation.RELU),
        "strided": single_ops.conv(ifm=MAP, out_channels=24, stride=(3, 3)),
        "dilated": single_ops.conv(ifm=MAP, out_channels=24, dilation=(2, 2)),
        "maximum": single_ops.pool(kind="MAX_POOL_2D", ifm=MAP),
        "add": single_ops.binary("ADD", MAPS),
        "mul": single_ops.binary("MUL", MAPS),
        "tanh": single_ops.unary("TANH", MAP),
    } | cpu_operators()


WEIGHTS = (AddressRange(1, 0, 512),)


@cache
def operations(address: int) -> tuple[KernelOperation, ...]:
    """What other compilers' streams hold beside: 16- and 32-bit data, 40-bit accumulators, a map far away at `address`."""
    block = Block(4, 4, 16)
    int16, int32 = (replace(feature_map(8, 8, 16), element=ElementType(bits, True)) for bits in (16, 32))
    point = replace(feature_map(1, 1, 16), element=int16.element)
    far = replace(feature_map(8, 8, 16), addresses=(address, 0, 0, 0))
    wide: dict[str, Any] = {"accumulator": AccumulatorFormat.INT40, "weights": WEIGHTS, "scales": WEIGHTS}
    made: list[KernelOperation] = [
        addition(8, 8, 16, block, ifm=values, ifm2=values, ofm=ofm, mode=mode, **scaled)
        for values, ofm in ((int16, int16), (int16, int32), (int32, int32))
        for mode, scaled in (
            (ElementwiseMode.ADD, {}),
            (ElementwiseMode.ADD, {"operand_scaling": OperandScaling.A_32}),
            (ElementwiseMode.MUL, {}),
        )
    ]
    made += [
        addition(8, 8, 16, block, ifm=int32, ifm2=None, ofm=int32, mode=ElementwiseMode.ABS, shram=ShramLayout(16, 22)),
        copy_operation(8, 8, 16, block, ifm=int16, ofm=int16),
        convolution(8, 8, 16, 16, block, ifm=int16, ofm=int16, **wide),
        convolution(1, 1, 16, 16, block, ifm=point, ofm=point, **wide),
        convolution(1, 1, 16, 16, block, weights=WEIGHTS, scales=WEIGHTS),
        copy_operation(8, 8, 16, block, ifm=far, ofm=far),
    ]
    return tuple(made)


ONE_TO_ONE = (
    "BATCH_MATMUL",
    "QUANTIZE",
    "DEQUANTIZE",
    "CONCATENATION",
    "PACK",
    "SPLIT",
    "SLICE",
    "STRIDED_SLICE",
    "ASSIGN_VARIABLE",
    "EXPAND_DIMS",
    "READ_VARIABLE",
    "SPLIT_V",
    "SQUEEZE",
    "UNPACK",
    "TRANSPOSE",
    "TRANSPOSE_CONV",
)
"""Operators of the cost tables whose cost is asked for directly, without a model that is valid."""


def cpu_operators() -> dict[str, Model]:
    """One float model, which no NPU takes, for each operator of the cost tables."""
    real = DType.FLOAT32
    kinds = {
        "cpu_conv": single_ops.conv(dtype=real),
        "cpu_depthwise": single_ops.conv(kind="DEPTHWISE_CONV_2D", dtype=real),
        "cpu_fully_connected": single_ops.fully_connected(dtype=real),
        "cpu_pad": single_ops.pad(dtype=real),
        "cpu_reshape": single_ops.reshape(dtype=real),
    }
    for kind in ("SOFTMAX", "LOGISTIC", "TANH", "ABS"):
        kinds[f"cpu_{kind.lower()}"] = single_ops.unary(kind, dtype=real)
    return kinds


BASES = {"u55": "ethos-u55-128", "u65_no_adapters": "ethos-u65-512", "u65": "ethos-u65-512"}


def leaves(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, tuple[type, str]]]:
    """Path, value and (record class, field) of every value of a description."""
    for field in (one for one in dataclasses.fields(record) if one.init):
        value = getattr(record, field.name)
        entries = value.items() if hasattr(value, "items") else [(None, value)]
        for key, entry in entries:
            where = (*path, field.name) if key is None else (*path, field.name, key)
            if dataclasses.is_dataclass(entry):
                yield from leaves(entry, where)
            else:
                yield where, entry, (type(record), field.name)


def changed(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    head, *rest = path
    if hasattr(record, "items"):
        return {**record, head: changed(record[head], tuple(rest), value) if rest else value}
    inner = changed(getattr(record, head), tuple(rest), value) if rest else value
    return replace(record, **{head: inner})


def other_values(value: Any, owner: tuple[type, str]) -> list[Any]:
    """What else a field may hold, as the loader would take it."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, Enum):
        return [member for member in type(value) if member is not value]
    if isinstance(value, str):
        return [value + "_changed"]
    low, high = field_range(*owner)
    tried = [value * 2, value * 8, value / 2, value / 8, value + 1, value - 1, 1, 100, low, high]
    numbers = {type(value)(number) for number in tried if number == type(value)(number)}
    return sorted(number for number in numbers if low <= number <= high and number != value)


def measured(variant: Variant, name: str) -> tuple[str, ...]:
    """Digests of the compiled file, of the cycles and of the report; or that the description or the model is refused."""
    if name == "operations":
        return measured_operations(variant)
    if name in ONE_TO_ONE:
        op = Op(name, (0, 0, 0), (0,))
        return ("", str(cpu_cycles(Graph("", (single_ops.tensor(MAP),), (op,), (), ()), op, variant.cpu)), "")
    model = models()[name]
    try:
        check_variant(variant, str)
        made = compile_in_memory(model, name, BlockChooser(variant)).written(name)
        compiled = read_model(made.content)
        timed = time_executable(Executable(CompiledFile(compiled, variant), name, map_of_compiled(made.compiled_model)))
    except UserError as error:
        return ("refused", str(error))
    report = timed.report_with_pmu().to_json() + str(variant_row(variant))
    return tuple(hashlib.md5(text).hexdigest() for text in (made.content, f"{timed.report.totals}".encode(), report.encode()))


def measured_operations(variant: Variant) -> tuple[str, ...]:
    """What the operations take of SHRAM, and their time; or that the hardware refuses them."""
    try:
        check_variant(variant, str)
        made = operations(1 << (33 if variant.accelerator.product is Product.ETHOS_U65 else 31))
        for operation in made:
            check_operation(operation, variant)
    except UserError as error:
        return ("refused", str(error))
    findings = [list(shram_findings(operation, variant)) for operation in made]
    cycles = [schedule([operation], variant, stream_words=1).totals for operation in made]
    cycles.append(schedule([transfer(4096)] * 6, variant, stream_words=6).totals)
    return tuple(hashlib.md5(str(values).encode()).hexdigest() for values in (findings, cycles))


def workloads() -> tuple[str, ...]:
    return ("operations", *ONE_TO_ONE, *models())


@cache
def before(base: str, name: str) -> tuple[str, ...]:
    return measured(base_variant(base), name)


@cache
def base_variant(base: str) -> Variant:
    variant = load_variant(BASES[base])
    if base == "u65_no_adapters":
        variant = replace(variant, system=replace(variant.system, adapters={}))
    return variant


def dotted(path: tuple[Any, ...]) -> str:
    return ".".join(getattr(part, "value", part) for part in path)


def effects(base: str, path: tuple[Any, ...], value: Any, owner: tuple[type, str]) -> set[str]:
    """Which of "refused", "compiled file", "time", "report" some other value of the field changes."""
    found: set[str] = set()
    others = other_values(value, owner)
    if not others:
        return {"refused"}
    for other in others:
        variant = changed(base_variant(base), path, other)
        for name in workloads():
            after, usual = measured(variant, name), before(base, name)
            if after[0] == "refused" and usual[0] != "refused":
                found.add("refused")
            elif after != usual:
                found |= {what for what, a, b in zip(("compiled file", "time", "report"), after, usual, strict=False) if a != b}
            if found:
                return found
    return found


def test_every_field_has_an_effect() -> None:
    alive: dict[str, set[str]] = {}
    for base in BASES:
        for path, value, owner in leaves(base_variant(base)):
            name = dotted(path)
            if not alive.get(name):
                alive[name] = effects(base, path, value, owner)
    dead = sorted(name for name, found in alive.items() if not found)
    assert dead == []
