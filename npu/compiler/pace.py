"""How far kernels and copies of constants are by the estimate."""

from __future__ import annotations

from npu.machine.port_rates import PortRate
from npu.records import dataclass, replace

COMMAND_BYTES = 160
"""Commands of a kernel and a copy, which pass the same port as the copy: the mean of streams, 40 words."""

JOB_CYCLES = 100
"""What a further kernel operation costs."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How far kernels and copies of constants are by the estimate: when both are free, and when the last kernel started.

    `port_free` is when the last kernel that read constants in place had read them.
    """

    port: PortRate
    kernel_free: float = 0.0
    kernel_started: float = 0.0
    engine_free: float = 0.0
    port_free: float = 0.0

    @property
    def is_engine_idle(self) -> bool:
        """Whether the last kernel did not wait for its copy: copying is not what everything waits for."""
        return self.engine_free < self.kernel_started or not self.kernel_free

    @property
    def is_behind_one_kernel(self) -> bool:
        """Whether nothing was copied, and one kernel has run."""
        return self.kernel_free > 0 and not (self.kernel_started or self.engine_free)

    @property
    def without_lead(self) -> Pace:
        """The pace if the next copy has to wait for the last kernel, whose maps and constants leave no room for it."""
        return replace(self, engine_free=self.end)

    def led_by(self, cycles: float) -> Pace:
        """The pace if copies can be no further ahead of the kernels than that."""
        return replace(self, engine_free=max(self.engine_free, self.kernel_free - cycles))

    @property
    def idle_cycles(self) -> float:
        """How long nothing has passed the port of the constants when the last kernel ends."""
        return self.kernel_free - max(self.engine_free, self.port_free)

    @property
    def end(self) -> float:
        """When both are free."""
        kernel_free, engine_free = self.kernel_free, self.engine_free
        return engine_free if engine_free > kernel_free else kernel_free  # a call of `max` takes twice as long

    def after(self, cycles: float, copied_bytes: float, read_bytes: float = 0) -> Pace:
        """After one more kernel of `cycles`, whose constants, if they are copied, are so as soon as the engine is free.

        Or it reads them in place, which copies beside it are not taken to feel.
        """
        engine, ready = self.engine_free, 0.0
        if copied_bytes:
            read, there = self.port.copy_cycles(copied_bytes + COMMAND_BYTES)
            engine, ready = engine + read, engine + there
        started = max(self.kernel_free, ready)
        read = max(self.port_free, started) + read_bytes / self.port.read if read_bytes else self.port_free
        return Pace(self.port, started + cycles + JOB_CYCLES, started, engine, read)
