"""What a compiled model takes: its NPU jobs and CPU operators as tasks of a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npu.graph.graph import Graph
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from sim.container import is_npu_job, payload_of
from sim.cpu import cpu_cycles
from sim.timeline import CpuTask, Job
from sim.timing import schedule


def tasks_of(graph: Graph, sources: Mapping[int, tuple[int, ...]], variant: Variant) -> Iterator[Job | CpuTask]:
    """The operators of a compiled graph in order; `sources` names the source operators that each one works for."""
    for index, op in enumerate(graph.ops):
        found = sources.get(index, ())
        if is_npu_job(op):
            words = payload_of(graph, index).words
            decoded = decode(words, variant)
            if len(found) != len(decoded):
                found = (found[0] if found else -1,) * len(decoded)
            yield Job(schedule(decoded, variant, stream_words=len(words)), found)
        else:
            yield CpuTask(found[0] if found else index, cpu_cycles(graph, op, variant.cpu))
