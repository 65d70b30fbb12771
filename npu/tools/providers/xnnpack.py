"""Flags of the XNNPACK-like CPU delegate."""

from __future__ import annotations

from npu.runtime.delegate import Delegate
from npu.runtime.plugins import load_delegate
from npu.tools.parameters import Flag, ToolParameters, create_flag
from npu.tools.registrar import DelegateProvider, register_delegate_provider


@register_delegate_provider
class XnnpackDelegateProvider(DelegateProvider):
    """`--use_xnnpack` and its options; quantised operators are off unless asked for, as in the delegate's defaults."""

    def name(self) -> str:
        return "XnnpackDelegate"

    def default_parameters(self) -> ToolParameters:
        parameters = ToolParameters()
        parameters.add("use_xnnpack", False)
        for name in ("qs8", "qu8", "force_fp16"):
            parameters.add(f"xnnpack_{name}", False)
        parameters.add("xnnpack_num_threads", 1)
        return parameters

    def create_flags(self, parameters: ToolParameters) -> list[Flag]:
        return [
            create_flag("use_xnnpack", parameters, "use the XNNPACK-like CPU delegate"),
            create_flag("xnnpack_qs8", parameters, "let it take signed 8-bit operators"),
            create_flag("xnnpack_qu8", parameters, "let it take unsigned 8-bit operators"),
            create_flag("xnnpack_force_fp16", parameters, "compute float operators in half precision or fail"),
            create_flag("xnnpack_num_threads", parameters, "its threads (default: 1)"),
        ]

    def log_parameters(self, parameters: ToolParameters) -> list[str]:
        threads = parameters.get("xnnpack_num_threads", int)
        return [f"use XNNPACK-like delegate: {parameters.get('use_xnnpack', bool)}, threads: {threads}"]

    def create_delegate(self, parameters: ToolParameters) -> Delegate | None:
        if not parameters.get("use_xnnpack", bool):
            return None
        options: dict[str, object] = {name: parameters.get(f"xnnpack_{name}", bool) for name in ("qs8", "qu8", "force_fp16")}
        return load_delegate("xnnpack", {**options, "num_threads": parameters.get("xnnpack_num_threads", int)})
