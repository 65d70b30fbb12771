"""What the verbs take: models as paths or bytes, hardware by name or file."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npu.arguments import BYTES, PATH, require_type, require_type_or_none
from npu.errors import ConfigError, ModelError, StreamError
from npu.graph.ethos_u import is_compiled, is_npu_job
from npu.graph.graph import Model
from npu.hardware.catalogue import list_variants, load_variant
from npu.hardware.variant import Variant
from npu.isa.payload import Configuration, configuration_of, decode_config, find_target, is_compatible
from npu.tflite.reader import read_model
from npu.toolchain.raw import is_raw, read_raw
from sim.container import payload_of
from sim.cpu import check_costs

DEFAULT_TARGET = "ethos-u55-128"
DEFAULT_PROFILE = "u55-u65"
_BLOCK_BYTES = 1 << 20

Source = str | Path | bytes
Config = str | Path | Mapping[str, Any]
"""A YAML file, or its contents; paths in the latter must be absolute."""


def given(model: Source) -> Source:
    """What a caller gave as a model: a path, or bytes. ArgumentTypeError for anything else."""
    require_type("model", model, (*PATH, *BYTES), "a path, or the bytes of a file")
    return bytes(model) if isinstance(model, BYTES) else model


def load(model: Source) -> Model:
    """Read a TFLite file, or Vela's raw output (.npz), into the typed graph. ModelError if it is malformed."""
    model = given(model)
    if not isinstance(model, bytes) and is_raw(model):
        return read_raw(model)
    return read_model(model)


def digest(model: Source) -> str:
    """SHA-256 of a model's file, in hexadecimal. ModelError if it cannot be read."""
    if isinstance(model, bytes):
        return hashlib.sha256(model).hexdigest()
    found = hashlib.sha256()
    try:
        with Path(model).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                found.update(block)
    except OSError as error:
        raise ModelError(f"{model}: must be readable, got {error.strerror or error}") from error
    return found.hexdigest()


def model_name(model: Source) -> str:
    """What messages and reports call the model."""
    return "<bytes>" if isinstance(model, bytes) else Path(model).name


def choose_variant(
    target: str | None = None, config: Config | None = None, *, memory_mode: str | None = None, system: str | None = None
) -> Variant:
    """The variant of a shipped target or of a description; ConfigError for both at once or for an unknown one.

    ArgumentTypeError for what is no name, path or, as `config`, a mapping of fields.
    """
    for name, value in {"target": target, "memory_mode": memory_mode, "system": system}.items():
        require_type_or_none(name, value, PATH, "a name, or the path of a YAML file")
    require_type_or_none("config", config, (*PATH, Mapping), "the path of a YAML file, or a mapping of fields")
    if isinstance(config, Mapping):
        return _described(target, config, memory_mode=memory_mode, system=system)
    if target is not None and config is not None:
        raise ConfigError(f"target {target!r} with config {str(config)!r}: give only one of them; a config names its own base")
    chosen = config if config is not None else DEFAULT_TARGET if target is None else target
    variant = load_variant(chosen, memory_mode=memory_mode, system=system)
    check_costs(variant.cpu, str(chosen))
    return variant


def _described(target: str | None, fields: Mapping[str, Any], *, memory_mode: str | None, system: str | None) -> Variant:
    """The variant of a description that is no file; JSON is YAML."""
    try:
        text = json.dumps(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"config: must hold texts, numbers, booleans and mappings of them, got: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            return choose_variant(target, path, memory_mode=memory_mode, system=system)
        except ConfigError as error:  # nobody knows the file that was made here
            raise ConfigError(re.sub(rf"{re.escape(str(path))}(:\d+)?", "config", str(error))) from error


def default_target(model: Source) -> str:
    """The target to take if none is asked for: the one that a compiled file was made for."""
    source = load(model)
    return variant_of_file(source, model_name(model)).name if is_compiled(source) else DEFAULT_TARGET


def load_compiled(model: Source) -> Model:
    """Read a file that must hold compiled NPU jobs; ModelError if it does not."""
    source = load(model)
    if not is_compiled(source):
        raise ModelError(
            f"{model_name(model)}: must hold compiled ethos-u operators, but it is a plain model; compile it first"
        )
    return source


def load_plain(model: Source) -> Model:
    """Read a TFLite file that must not be compiled yet; ModelError if it is."""
    source = read_model(given(model))
    if is_compiled(source):
        raise ModelError(f"{model_name(model)}: must be a plain TFLite model, but it already holds compiled ethos-u operators")
    return source


def variant_of_file(
    model: Model,
    name: str,
    target: str | None = None,
    config: Config | None = None,
    *,
    memory_mode: str | None = None,
    system: str | None = None,
) -> Variant:
    """The asked-for variant, or the shipped one with the configuration word of the file; StreamError if they differ."""
    graph_index, op_index = next(
        (g, i) for g, graph in enumerate(model.graphs) for i, op in enumerate(graph.ops) if is_npu_job(op)
    )
    found = payload_of(model.graphs[graph_index], op_index)
    made_for = decode_config(found.config_word)
    shipped = [load_variant(each, memory_mode=memory_mode, system=system) for each in _fitting(made_for)]
    if target is None and config is None:
        try:
            return find_target(made_for, shipped)
        except StreamError as error:
            raise StreamError(f"{name}: {error}") from error
    variant = choose_variant(target, config, memory_mode=memory_mode, system=system)
    if not is_compatible(made_for, variant.accelerator):
        known = shipped[0].name if shipped else "no shipped target"
        raise StreamError(
            f"{name}: was compiled for configuration word {found.config_word:#010x} ({known}), but {variant.name} has "
            f"{configuration_of(variant).word:#010x}; leave the target out or compile the source model for it"
        )
    return variant


def _fitting(config: Configuration) -> list[str]:
    return [name for name in list_variants() if is_compatible(config, load_variant(name).accelerator)]
