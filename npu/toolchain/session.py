"""What the verbs work with: hardware, rules of placement, and what has been worked out for them before."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING

from npu.compiler.goal import Goal, goal_named
from npu.errors import StreamError
from npu.graph.cpu_cost import check_costs
from npu.graph.graph import Model
from npu.hardware.catalogue import list_variants, load_variant
from npu.hardware.choice import Hardware, hidden_memories
from npu.hardware.loader import build_variant
from npu.hardware.variant import Variant
from npu.isa.payload import Configuration, configuration_of, decode_config, find_target, is_compatible
from npu.memo import LastUsed
from npu.numerics.lstm_gates import LstmGates, gates_named
from npu.records import dataclass

if TYPE_CHECKING:
    from npu.compiler.block_config import BlockChooser
    from npu.reports.operator_map import OperatorMap
    from sim.container import CompiledFile

DEFAULT_PROFILE = "u55-u65"
_EXECUTABLES = 8
"""Models that a session keeps."""


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled file, or a model of which nothing runs on the NPU.

    `name` is for messages and reports; `digest` is that of the file that was given, compiled or not;
    `notes` are what reports must say of how it was made.
    """

    file: CompiledFile
    name: str
    operators: OperatorMap
    digest: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> Model:
        return self.file.model

    @property
    def variant(self) -> Variant:
        return self.file.variant


class Session:
    """The hardware, the rules of placement and the choices of compiling for any number of models, and the last of these.

    Threads may share one. The hardware description is read once, at its first use; `notes` are what a person who wrote it
    may not expect.
    """

    def __init__(
        self,
        hardware: Hardware | None = None,
        profile: str = DEFAULT_PROFILE,
        goal: Goal | str = Goal.PERFORMANCE,
        lstm_gates: LstmGates | str = LstmGates.EXACT,
    ) -> None:
        self.hardware = Hardware() if hardware is None else hardware
        self.profile = profile
        self.goal = goal_named(goal)
        self.lstm_gates = gates_named(lstm_gates)
        self.notes: tuple[str, ...] = ()
        self.executables: LastUsed[tuple[str, bool], Executable] = LastUsed(_EXECUTABLES)
        """Models that are ready, by the digest of the file that was given and whether their weights are there."""
        self.choosers: LastUsed[str, BlockChooser] = LastUsed(1)
        """What chose the blocks of operators, by the name of the hardware."""
        self._variants: dict[str, Variant] = {}
        self._lock = RLock()

    def __reduce__(self) -> tuple[type[Session], tuple[Hardware, str, Goal, LstmGates]]:
        """A copy in another process begins with nothing worked out."""
        return Session, (self.hardware, self.profile, self.goal, self.lstm_gates)

    @property
    def variant(self) -> Variant:
        """What plain models are compiled for. ConfigError tells what is wrong with the description."""
        return self._load(self.hardware)

    def variant_of(self, model: Model, name: str) -> Variant:
        """What a compiled model runs on: the shipped variant with the configuration word of the file, unless one is asked for.

        StreamError if that differs from what the file was made for.
        """
        from sim.container import npu_operators, payload_of  # only compiled files need what reads streams

        graph, index = next(npu_operators(model))
        config_word = payload_of(model.graphs[graph], index).config_word
        made_for = decode_config(config_word)
        shipped = [load_variant(name, memory_mode=self.hardware.memory_mode, system=self.hardware.system)
                   for name in _fitting(made_for)]  # fmt: skip
        if not self.hardware.names_target:
            try:
                target = find_target(made_for, shipped)
            except StreamError as error:
                raise StreamError(f"{name}: {error}") from error
            return self._load(self.hardware.on(target.name))
        variant = self.variant
        if not is_compatible(made_for, variant.accelerator):
            known = shipped[0].name if shipped else "no shipped target"
            raise StreamError(
                f"{name}: was compiled for configuration word {config_word:#010x} ({known}), but {variant.name} has "
                f"{configuration_of(variant).word:#010x}; leave the target out or compile the source model for it"
            )
        return variant

    def _load(self, hardware: Hardware) -> Variant:
        with self._lock:
            variant = self._variants.get(hardware.name)
            if variant is None:
                variant = self._described(hardware)
                check_costs(variant.cpu, hardware.name)
                self._variants[hardware.name] = variant
            return variant

    def _described(self, hardware: Hardware) -> Variant:
        if hardware.is_shipped:
            return hardware.load()
        description = hardware.describe()
        variant = build_variant(description)
        self.notes = tuple(hidden_memories(description, variant))
        return variant


def _fitting(config: Configuration) -> list[str]:
    return [name for name in list_variants() if is_compatible(config, load_variant(name).accelerator)]
