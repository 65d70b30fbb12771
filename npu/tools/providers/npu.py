"""Flags of the simulated NPU: plain models are compiled first, compiled ones run as they are."""

from __future__ import annotations

from npu.graph.graph import Model
from npu.runtime.delegate import SimpleDelegate
from npu.tools.parameters import Flag, ToolParameters, create_flag
from npu.tools.registrar import DelegateProvider, register_delegate_provider


@register_delegate_provider
class NpuDelegateProvider(DelegateProvider):
    """`--use_npu`, `--npu_target`, `--npu_config`."""

    def name(self) -> str:
        return "EthosUDelegate"

    def default_parameters(self) -> ToolParameters:
        parameters = ToolParameters()
        parameters.add("use_npu", False)
        parameters.add("npu_target", "")
        parameters.add("npu_config", "")
        return parameters

    def create_flags(self, parameters: ToolParameters) -> list[Flag]:
        return [
            create_flag("use_npu", parameters, "compile for the NPU if needed and simulate it exactly"),
            create_flag("npu_target", parameters, "shipped variant, see npu configs (default: ethos-u55-128)"),
            create_flag("npu_config", parameters, "hardware description of your own"),
        ]

    def log_parameters(self, parameters: ToolParameters) -> list[str]:
        chosen = parameters.get("npu_config", str) or parameters.get("npu_target", str) or "default target"
        return [f"use simulated NPU: {parameters.get('use_npu', bool)}, {chosen}"]

    def create_delegate(self, parameters: ToolParameters) -> SimpleDelegate | None:
        if not parameters.get("use_npu", bool):
            return None
        from sim.delegate import EthosUDelegate  # numba kernels: only when they run

        return EthosUDelegate()

    def transform_model(self, model: Model, name: str, parameters: ToolParameters) -> Model:
        from npu.graph.ethos_u import is_compiled
        from npu.hardware.choice import Hardware
        from npu.toolchain.compile import compile_in_session
        from npu.toolchain.session import Session

        if is_compiled(model):
            return model
        hardware = Hardware(parameters.get("npu_target", str) or None, parameters.get("npu_config", str) or None)
        return compile_in_session(model, name, Session(hardware)).model
