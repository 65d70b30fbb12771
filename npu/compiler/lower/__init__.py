"""Lowering: the operators of one NPU partition become hardware steps with all arithmetic decided.

`partition.lower_partition` is the entry; `table.LOWERED` is the one table of what can be lowered.
"""
