"""Work of the output unit."""

from __future__ import annotations

from npu.layouts import BRICK_DEPTH
from npu.machine.kernels.arithmetic import ceil_div
from npu.machine.kernels.rows import ELEMENTWISE, MACHINE_ROW, OPERATION_ROW
from npu.native import types as ty
from npu.native.kernel import kernel

_I = ty.int64


@kernel(_I(OPERATION_ROW, MACHINE_ROW, _I), error_model="numpy")
def output_depth(op, machine, depth):  # type: ignore[no-untyped-def]
    """Depth of a block that the output unit of the busiest core works through.

    The cores share the depth of a block: of MAC operations by micro-blocks, of elementwise ones by bricks.
    """
    unit = BRICK_DEPTH if op.kind == ELEMENTWISE else op.ublock_depth
    share = ceil_div(ceil_div(depth, unit), machine.cores) * unit
    return min(depth, share)
