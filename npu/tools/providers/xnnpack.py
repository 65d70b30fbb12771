"""Flags of the XNNPACK-like CPU delegate."""

from __future__ import annotations

from npu.runtime.defaults import SWITCHES
from npu.runtime.delegate import Delegate
from npu.runtime.plugins import load_delegate
from npu.tools.parameters import Flag, ToolParameters, create_flag
from npu.tools.registrar import DelegateProvider, register_delegate_provider


@register_delegate_provider
class XnnpackDelegateProvider(DelegateProvider):
    """`--use_xnnpack` and its options; quantized operators are off unless asked for, as in the delegate's defaults."""

    def name(self) -> str:
        return "XnnpackDelegate"

    def default_parameters(self) -> ToolParameters:
        parameters = ToolParameters()
        parameters.add("use_xnnpack", False)
        for name in SWITCHES:
            parameters.add(f"xnnpack_{name}", False)
        parameters.add("xnnpack_num_threads", 0)
        return parameters

    def create_flags(self, parameters: ToolParameters) -> list[Flag]:
        return [
            create_flag("use_xnnpack", parameters, "use the XNNPACK-like CPU delegate, for float operators unless told more"),
            create_flag("xnnpack_qs8", parameters, "let it take signed 8-bit operators"),
            create_flag("xnnpack_qu8", parameters, "let it take unsigned 8-bit operators"),
            create_flag("xnnpack_force_fp16", parameters, "compute float operators in half precision or fail"),
            create_flag("xnnpack_variable_operators", parameters, "let it keep resource variables"),
            create_flag("xnnpack_transient_indirection_buffer", parameters, "rebuild indirection buffers in every run"),
            create_flag("xnnpack_num_threads", parameters, "its threads (default: 0, as --num-threads)"),
        ]

    def log_parameters(self, parameters: ToolParameters) -> list[str]:
        on = "".join(f", {name}" for name in SWITCHES if parameters.get(f"xnnpack_{name}", bool))
        return [f"use XNNPACK-like delegate: {parameters.get('use_xnnpack', bool)}, threads: {_threads(parameters)}{on}"]

    def create_delegate(self, parameters: ToolParameters) -> Delegate | None:
        if not parameters.get("use_xnnpack", bool):
            return None
        options: dict[str, object] = {name: parameters.get(f"xnnpack_{name}", bool) for name in SWITCHES}
        return load_delegate("xnnpack", {**options, "num_threads": _threads(parameters)})


def _threads(parameters: ToolParameters) -> int:
    return parameters.get("xnnpack_num_threads", int) or parameters.get("num_threads", int)
