"""Which hardware a caller asks for, as one value: a target or a description, and what is laid over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npu.arguments import PATH, require_type_or_none
from npu.errors import ConfigError, UserError
from npu.hardware.catalogue import load_variant
from npu.hardware.document import checked_mapping, parse_value
from npu.hardware.loader import build_variant, chosen_sections, describe
from npu.hardware.origin import ArgumentOrigin, FileOrigin
from npu.hardware.overlay import Description, Overlay
from npu.hardware.shipped import is_shipped
from npu.hardware.variant import Memory, TimingAdapter, Variant
from npu.records import dataclass

DEFAULT_TARGET = "ethos-u55-128"

Config = str | Path | Mapping[str, Any]
"""A YAML file, or its contents, whose relative paths start at the current folder."""

_NO_TIME = ("name", "size_bytes", "burst_bytes")
"""Fields of a memory that an adapter in front of it leaves as they are."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """A shipped `target`, or a `config` of one's own in its place, with chosen sections and with fields changed.

    Nothing chosen is the default target or, for a compiled file, what it was made for. `changes` are texts KEY=VALUE with a
    dotted key, the later laid over the earlier; `arena_cache_bytes` stands in place of the memory mode's. ConfigError for a
    target and a config at once; ArgumentTypeError for what is no name, path or, as `config`, a mapping of fields.
    """

    target: str | Path | None = None
    config: Config | None = None
    memory_mode: str | Path | None = None
    system: str | Path | None = None
    changes: tuple[str, ...] = ()
    arena_cache_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("target", "memory_mode", "system"):
            require_type_or_none(name, getattr(self, name), PATH, "a name, or the path of a YAML file")
        require_type_or_none("arena_cache_size", self.arena_cache_bytes, int, "a number of bytes")
        require_type_or_none("config", self.config, (*PATH, Mapping), "the path of a YAML file, or a mapping of fields")
        if self.target is not None and self.config is not None:
            given = "a mapping" if isinstance(self.config, Mapping) else repr(str(self.config))
            raise ConfigError(f"target {self.target!r} with config {given}: give only one of them; a config names its own base")

    @property
    def names_target(self) -> bool:
        """Whether the accelerator is asked for, not only what is laid over it."""
        return self.target is not None or self.config is not None

    @property
    def name(self) -> str:
        """For messages: what was asked for."""
        return "config" if isinstance(self.config, Mapping) else str(self._base if self.config is None else self.config)

    @property
    def _base(self) -> str | Path:
        return DEFAULT_TARGET if self.target is None else self.target

    def on(self, target: str) -> Hardware:
        """The same choice for a target, unless it names one itself."""
        return self if self.names_target else dataclasses.replace(self, target=target)

    @property
    def is_shipped(self) -> bool:
        """Whether nothing but shipped names, or files by their path, was asked for."""
        return self.config is None and not self.changes and self.arena_cache_bytes is None

    def load(self) -> Variant:
        """The validated variant. ConfigError tells the origin of the value at fault. Shipped ones are read once."""
        if self.is_shipped:
            return load_variant(self._base, memory_mode=self.memory_mode, system=self.system)
        return build_variant(self.describe())

    def describe(self) -> Description:
        """The whole description with the origin of every value."""
        base: str | Path | Overlay = self._base
        if isinstance(self.config, Mapping):
            base = Overlay(checked_mapping(self.config, "config"), ArgumentOrigin("config"))
        elif self.config is not None:
            base = Path(self.config)
        overlays = [*chosen_sections(memory_mode=self.memory_mode, system=self.system), *map(_overlay_of, self.changes)]
        if self.arena_cache_bytes is not None:
            origin = ArgumentOrigin("--arena-cache-size", ("memory_mode", "arena_cache_bytes"))
            overlays.append(Overlay({"memory_mode": {"arena_cache_bytes": self.arena_cache_bytes}}, origin))
        description = describe(base, overlays)
        if self.changes:
            description.values["name"] = f"{description.values['name']} (changed)"
        return description


def _overlay_of(change: str) -> Overlay:
    """The overlay of KEY=VALUE. A value is what it would be in a file."""
    dotted, separator, text = change.partition("=")
    *path, last = dotted.split(".")
    if not separator or not all((*path, last)):
        raise UserError(f"--set: must be KEY=VALUE with a dotted key, got {change!r}")
    if dotted == "extends":  # the report would name the other one
        raise UserError(f"--set: another target must be given as --target or --config, got {change!r}")
    where = f"--set {dotted}"
    values: dict[str, Any] = {last: parse_value(text, where)}
    for name in reversed(path):
        values = {name: values}
    return Overlay(values, ArgumentOrigin(where, (*path, last)))


def hidden_memories(description: Description, variant: Variant) -> Iterator[str]:
    """What to say of memories that a person described but whose time an adapter from elsewhere decides."""
    for port in variant.system.adapters:
        timing = (field.name for field in dataclasses.fields(Memory) if field.name not in _NO_TIME)
        changed = [origin for name in timing if (origin := _own(description, "memories", port.value, name))]
        adapter = (field.name for field in dataclasses.fields(TimingAdapter))
        if changed and not any(_own(description, "adapters", port.value, name) for name in adapter):
            is_file = isinstance(changed[0], FileOrigin)
            remedy = f"adapters: {{{port.value}: null}} in system" if is_file else f"--set system.adapters.{port.value}=null"
            yield (
                f"the adapter of {port.value}, not system.memories.{port.value}, decides how long accesses take; "
                f"{remedy} takes it away"
            )


def _own(description: Description, *key: str) -> ArgumentOrigin | FileOrigin | None:
    """The origin of a value of the system, unless it is shipped."""
    origin = description.origin_of(("system", *key))
    return None if isinstance(origin, FileOrigin) and is_shipped(origin.path) else origin
