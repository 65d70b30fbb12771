"""The performance counters of the hardware, from a schedule: the names are the Ethos-U driver's, the values are modelled.

For the MAC array, the output unit and the weight decoder, the active and stalled counters and the idle time add up to
NPU_ACTIVE; the counters of a unit that the model does not separate are left out, not set to zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port, Variant
from sim.timing.plan import burst_bytes
from sim.trace import Column


def count_events(table: NDArray[np.int64], kinds: Sequence[str], variant: Variant, cycles: int) -> dict[str, int]:
    """Counter values by event name of operations that take `cycles`: rows of a trace's table (n, len(Column)) and kinds."""
    sums = table.sum(axis=0)
    wide = table[:, Column.ELEMENT_BYTES] > 1
    kernel = table[:, Column.ELEMENT_BYTES] > 0
    mac, output = table[:, Column.MAC_ACTIVE], table[:, Column.OUTPUT_ACTIVE]
    elementwise = np.array([kind == "elementwise" for kind in kinds], np.bool_)
    waited = table[:, Column.OUTPUT_STALLED_BY_INPUT]
    counters = {
        "CYCLE": cycles,
        "NPU_ACTIVE": cycles,
        "NPU_IDLE": 0,
        "CC_STALLED_ON_BLOCKDEP": int(sums[Column.BLOCKDEP_STALL]),
        "MAC_ACTIVE": int(mac.sum()),
        "MAC_ACTIVE_8BIT": int(mac[kernel & ~wide].sum()),
        "MAC_ACTIVE_16BIT": int(mac[kernel & wide].sum()),
        "MAC_STALLED_BY_WD": int(sums[Column.MAC_STALLED_BY_WEIGHTS]),
        "MAC_STALLED_BY_ACC": int(sums[Column.MAC_STALLED_BY_ACCUMULATOR]),
        "MAC_STALLED_BY_IB": int(sums[Column.MAC_STALLED_BY_IFM]),
        "AO_ACTIVE": int(output.sum()),
        "AO_ACTIVE_8BIT": int(output[kernel & ~wide].sum()),
        "AO_ACTIVE_16BIT": int(output[kernel & wide].sum()),
        "AO_STALLED_BY_OFMP": int(sums[Column.OUTPUT_STALLED_BY_MEMORY]),
        "AO_STALLED_BY_IB": int(waited[elementwise].sum()),
        "AO_STALLED_BY_ACC": int(waited[kernel & ~elementwise].sum()),
        "WD_ACTIVE": int(sums[Column.DECODER_ACTIVE]),
        "WD_STALLED_BY_WS": int(sums[Column.DECODER_STALLED_BY_MEMORY]),
        "WD_STALLED_BY_WD_BUF": int(sums[Column.DECODER_STALLED_BY_MAC]),
    }
    counters["WD_STALLED"] = counters["WD_STALLED_BY_WS"] + counters["WD_STALLED_BY_WD_BUF"]
    counters.update(_port_events(sums, variant, cycles))
    return counters


def _port_events(sums: NDArray[np.int64], variant: Variant, cycles: int) -> dict[str, int]:
    beat = variant.accelerator.axi_data_bytes
    events: dict[str, int] = {}
    ports = {
        "AXI0": (Port.AXI0, Column.AXI0_READ_BYTES, Column.AXI0_WRITE_BYTES),
        "AXI1": (Port.AXI1, Column.AXI1_READ_BYTES, Column.AXI1_WRITE_BYTES),
    }
    for name, (port, read, write) in ports.items():
        burst = burst_bytes(variant, port)
        events[f"{name}_RD_TRANS_ACCEPTED"] = math.ceil(int(sums[read]) / burst)
        events[f"{name}_RD_TRANS_COMPLETED"] = math.ceil(int(sums[read]) / burst)
        events[f"{name}_RD_DATA_BEAT_RECEIVED"] = math.ceil(int(sums[read]) / beat)
        events[f"{name}_WR_TRANS_ACCEPTED"] = math.ceil(int(sums[write]) / burst)
        events[f"{name}_WR_TRANS_COMPLETED_M"] = math.ceil(int(sums[write]) / burst)
        events[f"{name}_WR_DATA_BEAT_WRITTEN"] = math.ceil(int(sums[write]) / beat)
        events[f"{name}_ENABLED_CYCLES"] = cycles
    return events
