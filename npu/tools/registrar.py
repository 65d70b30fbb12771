"""The delegate registrar: which providers there are; tools ask it for flags and delegates and know no delegate themselves.

A provider registers itself by one line when its module is imported. `load_providers` imports the modules of this project and
those that installed packages name in the entry-point group `npulab.delegate_providers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from typing import TypeVar

from npu.errors import UserError
from npu.graph.graph import Model
from npu.records import dataclass
from npu.runtime.delegate import Delegate, SimpleDelegate
from npu.tools.parameters import Flag, ToolParameters

GROUP = "npulab.delegate_providers"
SHIPPED = ("dummy", "external", "npu", "xnnpack")


class DelegateProvider(ABC):
    """Makes a delegate from command-line flags."""

    @abstractmethod
    def name(self) -> str:
        """How logs and errors call the delegate."""

    @abstractmethod
    def default_parameters(self) -> ToolParameters:
        """The provider's parameters with their defaults. The first is the one that asks for the delegate."""

    @abstractmethod
    def create_flags(self, parameters: ToolParameters) -> list[Flag]:
        """The flags that set the parameters."""

    @abstractmethod
    def log_parameters(self, parameters: ToolParameters) -> list[str]:
        """Lines that say what was chosen."""

    @abstractmethod
    def create_delegate(self, parameters: ToolParameters) -> Delegate | SimpleDelegate | None:
        """A new delegate, None if the parameters do not ask for it."""

    def transform_model(self, model: Model, name: str, parameters: ToolParameters) -> Model:
        """The model in the form that the delegate takes; compilers do their work here. Called only if it was asked for."""
        return model


P = TypeVar("P", bound=type[DelegateProvider])
_providers: dict[str, DelegateProvider] = {}


def register_delegate_provider(provider: P) -> P:
    """Class decorator: the provider is in the registrar from now on. UserError if its name is taken."""
    made = provider()
    if made.name() in _providers:
        raise UserError(f"delegate provider '{made.name()}': must be registered once, it is registered already")
    _providers[made.name()] = made
    return provider


def unregister_delegate_provider(name: str) -> None:
    """Forget a provider; UserError if there is none of that name."""
    if _providers.pop(name, None) is None:
        raise UserError(f"delegate provider '{name}': must be registered before it is removed")


@cache
def load_providers() -> tuple[str, ...]:
    """Import every module that registers a provider, once; which of other packages are left out, and why.

    Whatever the module of another package raises, the tools work without it.
    """
    left_out = []
    for module in SHIPPED:
        import_module(f"npu.tools.providers.{module}")
    for point in metadata.entry_points(group=GROUP):
        try:
            import_module(point.module)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            left_out.append(f"delegate provider '{point.name}' is left out: must be importable as {point.module}, got {reason}")
    return tuple(left_out)


def providers() -> tuple[DelegateProvider, ...]:
    """All registered providers in order of registration."""
    load_providers()
    return tuple(_providers.values())


def default_parameters() -> ToolParameters:
    """The parameters of all providers, and `num_threads`, which they have in common."""
    parameters = ToolParameters()
    parameters.add("num_threads", 1)
    for provider in providers():
        parameters.merge(provider.default_parameters())
    return parameters


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model in the form that the chosen delegates take, the delegates, and lines that say what was chosen."""

    model: Model
    delegates: Sequence[Delegate | SimpleDelegate]
    log: tuple[str, ...]


def make_delegates(parameters: ToolParameters, *, num_threads: int = 1) -> list[Delegate | SimpleDelegate]:
    """New delegates, those that the parameters ask for. Providers find `num_threads` among the parameters."""
    parameters = parameters.copy()
    parameters.set("num_threads", num_threads)
    made = (provider.create_delegate(parameters) for provider in providers())
    return [delegate for delegate in made if delegate is not None]


def choose(model: Model, name: str, parameters: ToolParameters, *, num_threads: int = 1) -> Chosen:
    """Ask every provider; `model` passes through those that were asked for.

    Providers find `num_threads` among the parameters. UserError if parameters were set that nothing would read.
    """
    parameters = parameters.copy()
    parameters.set("num_threads", num_threads)
    delegates: list[Delegate | SimpleDelegate] = []
    log: list[str] = []
    for provider in providers():
        _refuse_unread(provider, parameters)
        delegate = provider.create_delegate(parameters)
        if delegate is not None:
            model = provider.transform_model(model, name, parameters)
            delegates.append(delegate)
            log.extend(provider.log_parameters(parameters))
    return Chosen(model, delegates, tuple(log))


def _refuse_unread(provider: DelegateProvider, parameters: ToolParameters) -> None:
    """UserError for settings of a delegate that was not asked for."""
    defaults = provider.default_parameters()
    changed = parameters.changed(defaults)
    switch = next(iter(defaults), "")
    if changed and switch not in changed:
        flags = ", ".join(f"--{name}" for name in changed)
        raise UserError(f"{flags}: must be given together with --{switch}, got no {provider.name()}")
