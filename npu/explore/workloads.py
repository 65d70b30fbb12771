"""The multiplications of a model for academic tools: SCALE-Sim's topology, problems of Timeloop, a workload of ZigZag.

All three know convolutions (with groups) and matrix products; other operators are left out, and named. Shapes only: what these
tools say of cycles is of their own machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from npu.errors import ModelError, UserError
from npu.graph.graph import Graph, Model, Op
from npu.graph.macs import input_shape
from npu.records import dataclass

FORMS = ("scale-sim", "timeloop", "zigzag")
_BATCH, _GROUPS, _OUT, _IN, _HEIGHT, _WIDTH, _KERNEL_HEIGHT, _KERNEL_WIDTH = "B", "G", "K", "C", "OY", "OX", "FY", "FX"


@dataclass(frozen=True, slots=True)
class Workload:
    """Loops of one operator: each of `groups` makes `outputs` channels of `inputs` channels."""

    index: int
    kind: str
    batch: int
    groups: int
    outputs: int
    inputs: int
    height: int
    width: int
    kernel_height: int
    kernel_width: int
    stride_height: int = 1
    stride_width: int = 1
    dilation_height: int = 1
    dilation_width: int = 1
    bits: int = 8

    @property
    def macs(self) -> int:
        kernel = self.kernel_height * self.kernel_width * self.inputs
        return self.batch * self.groups * self.outputs * self.height * self.width * kernel

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1


def workloads(model: Model) -> tuple[list[Workload], list[str]]:
    """The workloads of a model, and the operators that none of the tools has a form for. ModelError if nothing is left."""
    graph = model.graphs[0]
    by_operator = [(f"{index} {op.kind}", _workload(graph, index, op)) for index, op in enumerate(graph.ops)]
    made = [workload for _, workload in by_operator if workload is not None]
    if not made:
        raise ModelError("export-workload: the model must hold convolutions or fully connected layers, got none")
    return made, [name for name, workload in by_operator if workload is None]


def _workload(graph: Graph, index: int, op: Op) -> Workload | None:
    makers = {"CONV_2D": _convolution, "DEPTHWISE_CONV_2D": _depthwise, "FULLY_CONNECTED": _fully_connected}
    shape, weights = (graph.tensors[op.outputs[0]].shape, input_shape(graph, op, 1)) if op.kind in makers else ((), ())
    if not shape or not weights or any(size < 1 for size in (*shape, *weights)):
        return None
    return makers[op.kind](graph, index, op, shape, weights)


def _convolution(graph: Graph, index: int, op: Op, shape: Sequence[int], weights: Sequence[int]) -> Workload:
    outputs, kernel_height, kernel_width, inputs = weights
    groups = max(input_shape(graph, op, 0)[3] // inputs, 1)
    sizes = (shape[0], groups, outputs // groups, inputs, shape[1], shape[2], kernel_height, kernel_width)
    return Workload(index, op.kind, *sizes, *_steps(op), _bits(graph, op))


def _depthwise(graph: Graph, index: int, op: Op, shape: Sequence[int], weights: Sequence[int]) -> Workload:
    _, kernel_height, kernel_width, outputs = weights
    groups = input_shape(graph, op, 0)[3]
    sizes = (shape[0], groups, outputs // groups, 1, shape[1], shape[2], kernel_height, kernel_width)
    return Workload(index, op.kind, *sizes, *_steps(op), _bits(graph, op))


def _fully_connected(graph: Graph, index: int, op: Op, shape: Sequence[int], weights: Sequence[int]) -> Workload:
    elements = 1
    for size in shape:
        elements *= size
    return Workload(index, op.kind, elements // weights[0], 1, weights[0], weights[1], 1, 1, 1, 1, bits=_bits(graph, op))


def _steps(op: Op) -> tuple[int, int, int, int]:
    names = ("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor")
    height, width, down, across = (int(getattr(op.attributes, name, 1) or 1) for name in names)
    return height, width, down, across


def _bits(graph: Graph, op: Op) -> int:
    return graph.tensors[op.inputs[0]].dtype.bits


def export(model: Model, form: str) -> tuple[dict[str, str], list[str]]:
    """Files by name, and what is not in them with the reason."""
    made, others = workloads(model)
    if form == "scale-sim":
        rows, left = _scale_sim(made)
        return {"topology.csv": rows}, others + left
    if form == "timeloop":
        return {f"{workload.index}_{workload.kind.lower()}.yaml": _yaml(_timeloop(workload)) for workload in made}, others
    if form == "zigzag":
        return {"workload.yaml": _yaml(list(_zigzag(made)))}, others
    raise UserError(f"export-workload: must be one of {', '.join(FORMS)}, got {form!r}")


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)


def _scale_sim(made: Sequence[Workload]) -> tuple[str, list[str]]:
    """A line per layer. SCALE-Sim has no padding, so heights and widths are those that the kernel passes over.

    A layer whose name holds DP is depthwise.
    """
    lines = ["Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"]
    left = []
    for workload in made:
        if workload.stride_height != workload.stride_width:
            left.append(f"{workload.index} {workload.kind}: strides must be equal in SCALE-Sim")
            continue
        height = (workload.height * workload.batch - 1) * workload.stride_height + workload.kernel_height
        width = (workload.width - 1) * workload.stride_width + workload.kernel_width
        channels, filters = (
            (workload.groups, workload.outputs) if workload.is_depthwise else (workload.inputs, workload.outputs)
        )
        name = f"{workload.index}_{'DP_' if workload.is_depthwise else ''}{workload.kind.partition('_')[0]}"
        sizes = (height, width, workload.kernel_height, workload.kernel_width, channels, filters, workload.stride_height)
        lines.append(", ".join([name, *map(str, sizes)]) + ",")
    return "\n".join(lines) + "\n", left


def _timeloop(workload: Workload) -> dict[str, Any]:
    """A problem in the format of version 0.4: R, S are the kernel, P, Q the output, C, M channels, N batch, G groups."""
    steps = {
        "Hstride": workload.stride_height,
        "Wstride": workload.stride_width,
        "Hdilation": workload.dilation_height,
        "Wdilation": workload.dilation_width,
    }
    sizes = {
        "N": workload.batch,
        "G": workload.groups,
        "M": workload.outputs,
        "C": workload.inputs,
        "P": workload.height,
        "Q": workload.width,
        "R": workload.kernel_height,
        "S": workload.kernel_width,
    }
    rows, columns = [["R", "Hdilation"], ["P", "Hstride"]], [["S", "Wdilation"], ["Q", "Wstride"]]
    spaces = [
        {"name": "Weights", "projection": [[["G"]], [["C"]], [["M"]], [["R"]], [["S"]]]},
        {"name": "Inputs", "projection": [[["N"]], [["G"]], [["C"]], rows, columns]},
        {"name": "Outputs", "projection": [[["N"]], [["G"]], [["M"]], [["P"]], [["Q"]]], "read_write": True},
    ]
    shape = {
        "name": f"op_{workload.index}_{workload.kind}",
        "dimensions": list(sizes),
        "coefficients": [{"name": name, "default": value} for name, value in steps.items()],
        "data_spaces": spaces,
    }
    return {"problem": {"version": "0.4", "shape": shape, "instance": {**sizes, **steps}}}


def _zigzag(made: Sequence[Workload]) -> Iterator[dict[str, Any]]:
    """Layers of ZigZag's workload file, each on the one before: operators that are left out are not in the chain."""
    for position, workload in enumerate(made):
        sizes = {
            _BATCH: workload.batch,
            _GROUPS: workload.groups,
            _OUT: workload.outputs,
            _IN: workload.inputs,
            _HEIGHT: workload.height,
            _WIDTH: workload.width,
            _KERNEL_HEIGHT: workload.kernel_height,
            _KERNEL_WIDTH: workload.kernel_width,
        }
        yield {
            "id": position,
            "name": f"{workload.index} {workload.kind}",
            "operator_type": "Conv",
            "equation": "O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]",
            "dimension_relations": [
                f"ix={workload.stride_width}*ox+{workload.dilation_width}*fx",
                f"iy={workload.stride_height}*oy+{workload.dilation_height}*fy",
            ],
            "loop_dims": list(sizes),
            "loop_sizes": list(sizes.values()),
            "operand_precision": {"W": 8, "I": workload.bits, "O": 32, "O_final": workload.bits},
            "operand_source": {"I": max(position - 1, 0), "W": position},
        }
