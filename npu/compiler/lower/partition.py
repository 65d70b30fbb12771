"""The walk over one partition: operators in, program out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from npu.compiler.ir import Program
from npu.compiler.lower.admit import LoweringError, check_operator
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.fusions import find_fusions, table_prices
from npu.compiler.lower.geometry import largest_padding
from npu.compiler.lower.late_joins import Joins
from npu.compiler.lower.late_views import with_late_views
from npu.compiler.lower.near_pads import with_near_pads
from npu.compiler.lower.repeated_constants import without_repetitions
from npu.compiler.lower.rooms import Rooms
from npu.compiler.lower.table import LOWERED
from npu.compiler.lower.transposed_regions import without_undone_transposes
from npu.compiler.lower.upright import with_upright_kernels
from npu.compiler.step_problems import StepEstimates
from npu.errors import CompileError, ModelError
from npu.graph.graph import Graph
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.numerics.lstm_gates import LstmGates
from npu.records import replace


def lower_partition(
    graph: Graph,
    ops: Sequence[int],
    variant: Variant,
    lstm_gates: LstmGates = LstmGates.EXACT,
    *,
    saves_memory: bool = False,
    estimates: StepEstimates | None = None,
    keeps_maps: bool = False,
    joins: Joins = Joins.EARLY,
    budget: int = sys.maxsize,
) -> Program:
    """Return the steps that compute the operators `ops` (indices into `graph.ops`, execution order) on `variant`.

    Every output of the partition equals the reference kernels bit for bit (FULLY_CONNECTED: with double rounding;
    cells of `lstm_gates` TABLE: with the hardware's). Maps may take `budget` bytes.
    Raises LoweringError for an operator that cannot be lowered.
    """
    computed = [index for index in ops if index not in graph.unneeded]
    compares = family_of(variant.accelerator.product).compares
    for index in computed:
        lowering = LOWERED.get(graph.ops[index].kind)
        if lowering is None:
            raise LoweringError(index, graph.ops[index], "must be one that the NPU can run, see LOWERED")
        check_operator(graph, index, lowering.limit, needs_options=lowering.needs_options, compares=compares)
    graph, computed = with_upright_kernels(graph, computed)
    graph, orders = without_undone_transposes(graph, computed)
    graph, origins = with_late_views(with_near_pads(graph, computed), computed)
    graph = without_repetitions(graph, computed)
    prices = table_prices(variant, saves_memory=saves_memory)
    fusions = find_fusions(graph, computed, largest_padding(variant)[0], prices, joins=joins)
    rooms = Rooms(graph, computed, fusions, budget, is_small=keeps_maps)
    builder = Builder(
        graph, fusions, variant, rooms, lstm_gates, saves_memory=saves_memory, estimates=estimates, keeps_maps=keeps_maps
    )
    for index in computed:
        if index not in fusions.carrier:
            builder.index = index
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # a factor that is no finite number is refused
                    LOWERED[graph.ops[index].kind].make_steps(builder, graph.ops[index])
            except LoweringError:
                raise
            except (CompileError, ModelError) as error:
                raise builder.error(graph.ops[index], str(error)) from error
    return replace(builder.program(ops, origins), orders=orders)
