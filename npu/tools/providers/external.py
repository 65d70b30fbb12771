"""Flags of delegates that are loaded at run time."""

from __future__ import annotations

from npu.errors import UserError
from npu.runtime.delegate import Delegate
from npu.runtime.plugins import load_delegate
from npu.tools.parameters import Flag, ToolParameters, create_flag
from npu.tools.registrar import DelegateProvider, register_delegate_provider


@register_delegate_provider
class ExternalDelegateProvider(DelegateProvider):
    """`--external_delegate_path` and `--external_delegate_options`."""

    def name(self) -> str:
        return "ExternalDelegate"

    def default_parameters(self) -> ToolParameters:
        parameters = ToolParameters()
        parameters.add("external_delegate_path", "")
        parameters.add("external_delegate_options", "")
        return parameters

    def create_flags(self, parameters: ToolParameters) -> list[Flag]:
        where = "plug-in to load: Python file or module, shipped name (dummy, ethos-u, xnnpack), entry point, shared library"
        return [
            create_flag("external_delegate_path", parameters, where),
            create_flag("external_delegate_options", parameters, 'its options as "key:value;key:value"'),
        ]

    def log_parameters(self, parameters: ToolParameters) -> list[str]:
        path, options = (parameters.get(f"external_delegate_{part}", str) for part in ("path", "options"))
        return [f"external delegate: {path}, options: {options or 'none'}"]

    def create_delegate(self, parameters: ToolParameters) -> Delegate | None:
        path = parameters.get("external_delegate_path", str)
        options = parse_pairs(parameters.get("external_delegate_options", str))
        return load_delegate(path, options) if path else None


def parse_pairs(text: str) -> dict[str, str]:
    """Options written "key:value;key:value"; UserError for a part without a colon."""
    pairs = {}
    for part in (part.strip() for part in text.split(";")):
        key, colon, value = part.partition(":")
        if part and (not colon or not key.strip()):
            raise UserError(f"external_delegate_options: must be \"key:value;key:value\", got '{part}'")
        if part:
            pairs[key.strip()] = value.strip()
    return pairs
