"""Flags of the dummy delegate; the worked example of a provider."""

from __future__ import annotations

from npu.runtime.delegate import Delegate
from npu.runtime.dummy import DummyOptions, create_dummy_delegate
from npu.tools.parameters import Flag, ToolParameters, create_flag
from npu.tools.registrar import DelegateProvider, register_delegate_provider


@register_delegate_provider
class DummyDelegateProvider(DelegateProvider):
    """`--use_dummy_delegate`."""

    def name(self) -> str:
        return "DummyDelegate"

    def default_parameters(self) -> ToolParameters:
        parameters = ToolParameters()
        parameters.add("use_dummy_delegate", False)
        parameters.add("dummy_allowed_builtins", "")
        for callback in ("init", "prepare", "invoke"):
            parameters.add(f"dummy_error_during_{callback}", False)
        return parameters

    def create_flags(self, parameters: ToolParameters) -> list[Flag]:
        flags = [
            create_flag("use_dummy_delegate", parameters, "run operators through the dummy delegate"),
            create_flag("dummy_allowed_builtins", parameters, "operators that it takes, e.g. ADD,SUB (default: all)"),
        ]
        for callback in ("init", "prepare", "invoke"):
            flags.append(create_flag(f"dummy_error_during_{callback}", parameters, f"let its {callback} fail"))
        return flags

    def log_parameters(self, parameters: ToolParameters) -> list[str]:
        return [f"use dummy delegate: {parameters.get('use_dummy_delegate', bool)}"]

    def create_delegate(self, parameters: ToolParameters) -> Delegate | None:
        if not parameters.get("use_dummy_delegate", bool):
            return None
        allowed = parameters.get("dummy_allowed_builtins", str)
        options = DummyOptions(
            allowed_builtins=tuple(part.strip() for part in allowed.split(",") if part.strip()),
            error_during_init=parameters.get("dummy_error_during_init", bool),
            error_during_prepare=parameters.get("dummy_error_during_prepare", bool),
            error_during_invoke=parameters.get("dummy_error_during_invoke", bool),
        )
        return create_dummy_delegate(options)
