"""When things happen: a block-level timing model of the machine that never looks at tensor values."""

from sim.timing.scheduler import run_plan, schedule

__all__ = ["run_plan", "schedule"]
