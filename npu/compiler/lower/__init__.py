"""Lowering: the operators of one NPU partition become hardware steps with all arithmetic decided.

`lower_partition` is the entry; `LOWERED` is the one table of what can be lowered.
"""

from npu.compiler.lower.partition import lower_partition
from npu.compiler.lower.table import LOWERED, Lowering

__all__ = ["LOWERED", "Lowering", "lower_partition"]
