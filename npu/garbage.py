"""How often Python looks for cycles of garbage, in the processes that belong to this project."""

import gc

_THRESHOLD = 300_000
"""New objects between two searches. Graphs and plans are many objects that stay: with Python's own 700, a tenth of the time
of a compilation and of imports goes to finding nothing."""


def collect_rarely() -> None:
    """To be called where the process is ours: the command line, and workers. A library leaves its user's process alone."""
    gc.set_threshold(_THRESHOLD)
