"""Records behave as those of the standard decorator, for every form that it has here and every record of the product."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from npu import initialisers, records
from npu.graph.wire import Table

from tests.support import initialisers as initialisers_ahead

DECORATORS: dict[str, Callable[..., Any]] = {"standard": dataclasses.dataclass, "records": records.dataclass}
FORMS = {
    "frozen with slots": {"frozen": True, "slots": True},
    "frozen": {"frozen": True},
    "plain": {},
    "slots": {"slots": True},
    "without equality": {"frozen": True, "slots": True, "eq": False},
    "by keyword": {"frozen": True, "slots": True, "kw_only": True},
    "ordered, left to the standard decorator": {"order": True},
}


def _example(decorate: Callable[..., Any], form: dict[str, bool]) -> Any:
    class Example:
        """An example."""

        limit: ClassVar[int] = 3
        name: str
        depth: int = 4
        items: list[int] = field(default_factory=list)
        hidden: str = field(default="h", repr=False, compare=False)
        computed: int = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "computed", self.depth * 2)

    return decorate(**form)(Example)


def _observe(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (TypeError, FrozenInstanceError, AttributeError) as error:
        return type(error), str(error)


def _behaviour(example: Any) -> list[Any]:
    """What both decorators must give alike."""
    one, other = example(name="a"), example(name="a", hidden="other")
    return [
        repr(one),
        one == other,
        one == example(name="b"),
        one == "a",
        _observe(lambda: hash(one) == hash(other)),
        one.items is other.items,
        one.computed,
        str(inspect.signature(example)),
        example.__match_args__,
        hasattr(one, "__dict__"),
        _observe(lambda: setattr(one, "depth", 5)),
        _observe(lambda: delattr(one, "name")),
        _observe(lambda: example("a", 1)),
        _observe(lambda: example(unknown=1)),
        _observe(lambda: dataclasses.replace(other, depth=9)),
        dataclasses.asdict(copy.copy(other)),
        [(item.name, item.default, item.repr, item.compare, item.init) for item in dataclasses.fields(example)],
        [getattr(example.__dataclass_params__, name) for name in ("init", "repr", "eq", "order", "frozen")],
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_record_behaves_as_the_standard_one(form: str) -> None:
    standard, ours = (_behaviour(_example(decorate, FORMS[form])) for decorate in DECORATORS.values())
    # Two examples are of two classes: what is compared of a replaced one is its text.
    assert [str(item) for item in ours] == [str(item) for item in standard]


def test_only_the_unusual_is_left_to_the_standard_decorator() -> None:
    files = {form: _example(records.dataclass, options).__init__.__code__.co_filename for form, options in FORMS.items()}
    ours = {form for form, file in files.items() if records.__name__ in file}
    assert set(FORMS) - ours == {"ordered, left to the standard decorator"}


@records.dataclass(frozen=True, slots=True)
class Base:
    """Pickled by reference, so of the module."""

    depth: int
    name: str = "base"


@records.dataclass(frozen=True, slots=True)
class Derived(Base):
    """A record derived from a record."""

    height: int = 2


@records.dataclass(frozen=True, slots=True)
class OwnHash:
    """A record that keeps its own methods."""

    depth: int

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


def test_a_record_is_pickled_and_derived_from() -> None:
    assert pickle.loads(pickle.dumps(Base(3))) == Base(3)
    assert pickle.loads(pickle.dumps(Derived(3, height=5))) == Derived(3, "base", 5)
    assert Derived(1) != Base(1)


def test_methods_of_the_class_stay() -> None:
    assert (hash(OwnHash(1)), repr(OwnHash(1)), OwnHash(1) == OwnHash(1)) == (7, "own", True)


def test_a_field_without_default_behind_one_with_is_refused() -> None:
    with pytest.raises(TypeError, match="non-default argument follows default argument 'depth'"):

        @records.dataclass(frozen=True)
        class Wrong:
            depth: int = 1
            height: int


def test_a_default_that_changes_is_refused() -> None:
    changing: list[int] = []
    with pytest.raises(ValueError, match="mutable default"):

        @records.dataclass(frozen=True)
        class Wrong:
            items: list[int] = changing


def test_records_of_the_product_have_the_parameters_of_the_standard_decorator() -> None:
    checked = 0
    for record in initialisers_ahead.product_records():
        if not records.is_made_here(record) or record.__init__ is Table.__init__:
            continue
        options = {"slots": False, "frozen": record.__dataclass_params__.frozen}
        namespace: dict[str, Any] = {"__doc__": record.__doc__, "__annotations__": {}}
        for item in dataclasses.fields(record):
            namespace["__annotations__"][item.name] = item.type
            namespace[item.name] = field(
                default=item.default,
                default_factory=item.default_factory,
                init=item.init,
                kw_only=bool(item.kw_only),
            )  # type: ignore[call-overload]
        standard = dataclasses.dataclass(**options)(type(record.__name__, (), namespace))
        assert str(inspect.signature(record)) == str(inspect.signature(standard)), record
        assert record.__match_args__ == standard.__match_args__
        checked += 1
    assert checked > 200


@pytest.mark.parametrize("package", ["npu.compiler", "npu.isa", "sim.timing", "constraints"])
def test_records_cannot_be_changed_and_take_no_more_attributes(package: str) -> None:
    place = importlib.import_module(package).__path__
    names = [package, *(found.name for found in pkgutil.walk_packages(place, f"{package}."))]
    modules = [importlib.import_module(name) for name in names]
    records = {
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and item.__module__ == module.__name__ and dataclasses.is_dataclass(item)
    }
    assert records
    for record in records:
        keeps_results = any(isinstance(item, functools.cached_property) for item in vars(record).values())
        assert record.__dataclass_params__.frozen, record
        assert ("__slots__" in vars(record)) != keeps_results, record


def test_initialisers_are_those_that_would_be_compiled() -> None:
    assert Path(initialisers.__file__).read_text("utf-8") == initialisers_ahead.text(), initialisers_ahead.__doc__


def test_what_a_class_makes_later_can_be_asked_for_as_of_an_instance() -> None:
    """As `inspect.signature` of Python 3.13 does."""

    @records.dataclass(frozen=True, slots=True)
    class Pair:
        one: int
        other: int = 2

    assert vars(Pair)["__init__"].__get__(Pair, type(Pair)).__func__ is Pair.__init__
    assert str(inspect.signature(Pair)).startswith("(one: ")
