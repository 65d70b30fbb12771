"""What an operator costs on the host processor, from the per-core cost table of the variant.

An estimate, with the error that the table states: cycles = MACs x cycles per MAC + output elements x cycles per element.
"""

from __future__ import annotations

from npu.graph.graph import Graph, Op
from npu.graph.work import macs, output_elements
from npu.hardware.variant import Cpu

DEFAULT = "default"


def cpu_cycles(graph: Graph, op: Op, cpu: Cpu) -> int:
    """Cycles of the CPU's own clock for one operator of `graph`."""
    per_mac = cpu.cycles_per_mac.get(op.kind, cpu.cycles_per_mac[DEFAULT])
    per_element = cpu.cycles_per_element.get(op.kind, cpu.cycles_per_element[DEFAULT])
    return round(macs(graph, op) * per_mac + output_elements(graph, op) * per_element)
