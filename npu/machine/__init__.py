"""What the machine does with an operation: its blocks in their order, what each costs every unit, and where its elements lie.

The planner of the compiler, the timing engine, its explanations and BLOCKDEP ask here, so that they cannot disagree. The
judges do not: `sim.verify` and the naive twins under `tests/naive` know the same facts on their own.
"""
