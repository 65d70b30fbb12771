"""What an operator costs on the host processor, from the per-core cost table of the variant.

An estimate, with the error that the table states: cycles = MACs x cycles per MAC + elements x cycles per element. Elements are
those of the output; of the input where whole axes are reduced, one after the other in tflite-micro. An assignment to a variable
has no output: it writes what its second input holds.
"""

from __future__ import annotations

import math

from npu.errors import ConfigError
from npu.graph.graph import Graph, Op
from npu.graph.ops import BY_NAME, REDUCTIONS
from npu.graph.work import input_shape, macs, output_elements
from npu.hardware.shipped import closest
from npu.hardware.variant import Cpu

DEFAULT = "default"


def cpu_cycles(graph: Graph, op: Op, cpu: Cpu) -> int:
    """Cycles of the CPU's own clock for one operator of `graph`; of a look-up for all that it stands for alone."""
    if op.lookup is not None:
        before = graph.unneeded.intersection(op.lookup.before)
        return sum(cpu_cycles(graph, one, cpu) for one in (*[graph.ops[index] for index in before], op.lookup.whole))
    per_mac = cpu.cycles_per_mac.get(op.kind, cpu.cycles_per_mac[DEFAULT])
    per_element = cpu.cycles_per_element.get(op.kind, cpu.cycles_per_element[DEFAULT])
    return round(macs(graph, op) * per_mac + _elements(graph, op) * per_element)


def _elements(graph: Graph, op: Op) -> int:
    if op.kind == "ASSIGN_VARIABLE":
        return math.prod(input_shape(graph, op, 1))
    read = math.prod(input_shape(graph, op, 0)) if op.kind in REDUCTIONS and op.inputs else 0
    return max(read, output_elements(graph, op))


def check_costs(cpu: Cpu, where: str) -> None:
    """ConfigError, naming the key, if a cost table holds an operator that does not exist: its cost would never be used."""
    tables = {"cycles_per_mac": cpu.cycles_per_mac, "cycles_per_element": cpu.cycles_per_element}
    for table, costs in tables.items():
        for name in costs:
            if name != DEFAULT and name not in BY_NAME:
                meant = closest(name.upper(), BY_NAME)
                allowed = f"must be '{DEFAULT}' or an operator of the TFLite schema, got {name[:80]!r}{meant}"
                raise ConfigError(f"{where}: cpu.{table}: {allowed}")
