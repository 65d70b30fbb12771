"""The XNNPACK-like delegate as a plug-in: `load_delegate("xnnpack", {"num_threads": 2})`; its options as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from npu.errors import UserError
from npu.records import dataclass
from npu.runtime.delegate import Delegate, as_delegate
from npu.runtime.plugins import ReportError, parse_options
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.options import default_options


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The options that text can express; see `npu.runtime.xnnpack.options.XnnpackOptions`."""

    num_threads: int = 1
    qs8: bool = False
    qu8: bool = False
    force_fp16: bool = False
    variable_operators: bool = False
    transient_indirection_buffer: bool = False


def tflite_plugin_create_delegate(
    keys: Sequence[str], values: Sequence[str], count: int, report_error: ReportError
) -> Delegate | None:
    """A delegate with these options; None after an error was reported."""
    options = parse_options(keys[:count], values[:count], TextOptions(), report_error)
    if options is None:
        return None
    try:
        return as_delegate(XnnpackDelegate(dataclasses.replace(default_options(), **dataclasses.asdict(options))))
    except UserError as error:
        report_error(str(error))
        return None


def tflite_plugin_destroy_delegate(delegate: Delegate) -> None:
    """Close the delegate."""
    delegate.delete()
