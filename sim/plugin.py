"""The simulated NPU as a plug-in: `load_delegate("ethos-u", {"target": ...})`; its options as text."""

from __future__ import annotations

from collections.abc import Sequence

from npu.errors import UserError
from npu.hardware.catalogue import load_variant
from npu.records import dataclass
from npu.runtime.delegate import Delegate, as_delegate
from npu.runtime.plugins import ReportError, parse_options
from sim.delegate import EthosUDelegate


@dataclass(frozen=True, slots=True)
class NpuOptions:
    """`target` names a shipped variant; "" takes the one that the compiled file was made for."""

    target: str = ""


def tflite_plugin_create_delegate(
    keys: Sequence[str], values: Sequence[str], count: int, report_error: ReportError
) -> Delegate | None:
    """A delegate that runs `ethos-u` operators; None after an error was reported."""
    options = parse_options(keys[:count], values[:count], NpuOptions(), report_error)
    if options is None:
        return None
    try:
        return as_delegate(EthosUDelegate(load_variant(options.target) if options.target else None))
    except UserError as error:
        report_error(str(error))
        return None


def tflite_plugin_destroy_delegate(delegate: Delegate) -> None:
    """Release the machine."""
    delegate.delete()
