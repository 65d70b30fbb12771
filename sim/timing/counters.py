"""The performance counters of the hardware, from a schedule: the names are the Ethos-U driver's, the values are modelled.

For the MAC array, the output unit and the weight decoder, the active and stalled counters and the idle time add up to
NPU_ACTIVE; events that the model does not separate are left out, not set to zero (`sim.pmu` lists them with the
reason).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.machine.parameters import burst_bytes
from sim.trace import PORT_BYTES, TraceColumn


def operation_events(table: NDArray[np.int64], kinds: Sequence[str], variant: Variant) -> dict[str, NDArray[np.int64]]:
    """Counters of each operation of a job, shape (n,) by event name; sums over any operations are their counters."""
    element = table[:, TraceColumn.ELEMENT_BYTES]
    kernel, wide = element > 0, element > 1
    mac, output = table[:, TraceColumn.MAC_ACTIVE], table[:, TraceColumn.OUTPUT_ACTIVE]
    elementwise = np.array([kind == "elementwise" for kind in kinds], np.bool_)
    waited = table[:, TraceColumn.OUTPUT_STALLED_BY_INPUT]
    source, buffer = table[:, TraceColumn.DECODER_STALLED_BY_MEMORY], table[:, TraceColumn.DECODER_STALLED_BY_MAC]
    return {
        "CC_STALLED_ON_BLOCKDEP": table[:, TraceColumn.BLOCKDEP_STALL],
        "MAC_ACTIVE": mac,
        "MAC_ACTIVE_8BIT": mac * (element == 1),
        "MAC_ACTIVE_16BIT": mac * (element == 2),
        "MAC_ACTIVE_32BIT": mac * (element == 4),
        "MAC_STALLED_BY_WD": table[:, TraceColumn.MAC_STALLED_BY_WEIGHTS],
        "MAC_STALLED_BY_ACC": table[:, TraceColumn.MAC_STALLED_BY_ACCUMULATOR],
        "MAC_STALLED_BY_IB": table[:, TraceColumn.MAC_STALLED_BY_IFM],
        "AO_ACTIVE": output,
        "AO_ACTIVE_8BIT": output * (element == 1),
        "AO_ACTIVE_16BIT": output * wide,
        "AO_STALLED_BY_OFMP": table[:, TraceColumn.OUTPUT_STALLED_BY_MEMORY],
        "AO_STALLED_BY_IB": waited * elementwise,
        "AO_STALLED_BY_ACC": waited * (kernel & ~elementwise),
        "WD_ACTIVE": table[:, TraceColumn.DECODER_ACTIVE],
        "WD_STALLED": source + buffer,
        "WD_STALLED_BY_WS": source,
        "WD_STALLED_BY_WD_BUF": buffer,
        **_port_events(table, variant),
    }


def _port_events(table: NDArray[np.int64], variant: Variant) -> dict[str, NDArray[np.int64]]:
    """Beats and transactions, as many as the bytes so far need: a beat that two operations share counts for the first."""
    beat = variant.accelerator.axi_data_bytes
    events: dict[str, NDArray[np.int64]] = {}
    for port, (read, write) in PORT_BYTES.items():
        name, burst = port.name, burst_bytes(variant, port)
        reads, writes = table[:, read], table[:, write]
        events[f"{name}_RD_TRANS_ACCEPTED"] = events[f"{name}_RD_TRANS_COMPLETED"] = _whole(reads, burst)
        events[f"{name}_RD_DATA_BEAT_RECEIVED"] = _whole(reads, beat)
        events[f"{name}_WR_TRANS_ACCEPTED"] = events[f"{name}_WR_TRANS_COMPLETED_M"] = _whole(writes, burst)
        events[f"{name}_WR_DATA_BEAT_WRITTEN"] = _whole(writes, beat)
    return events


def _whole(sizes: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    """Units that each of `sizes` (bytes) begins when they follow one another."""
    begun: NDArray[np.int64] = np.diff(-(-np.cumsum(sizes) // unit), prepend=0)
    return begun
