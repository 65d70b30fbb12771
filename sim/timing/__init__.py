"""When things happen: a block-level timing model of the machine that never looks at tensor values."""

from sim.timing.scheduler import schedule, time_rows

__all__ = ["schedule", "time_rows"]
