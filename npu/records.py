"""`dataclass` as the standard library has it, made in a tenth of the time: every process makes two hundred of them.

The standard decorator writes the methods of every class as text and compiles it. Here it finds the fields only; initialisers
of the same form share one compiled code, in which the names of the fields are put in place of others. What is rare (`order`,
InitVar) is left to the standard decorator, and `field`, `fields`, `replace` and `asdict` are its own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

_OPTIONS = {"frozen", "slots", "eq", "kw_only"}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """`dataclasses.replace`, which looks at every field again."""
        names, read = _given(type(record))
        return type(record)(**dict(zip(names, read(record), strict=True)) | changes)

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """`dataclasses.dataclass`."""
        return functools.partial(_record, options=options) if cls is None else _record(cls, options)


@functools.cache
def _given(cls: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The fields that the initialiser takes, and what reads them."""
    names = tuple(attribute.name for attribute in dataclasses.fields(cls) if attribute.init)
    return names, _values(names)


def _record(cls: type, options: Mapping[str, bool]) -> type:
    if not _is_usual(cls, options):
        return dataclasses.dataclass(**options)(cls)
    frozen, eq = options.get("frozen", False), options.get("eq", True)
    fields_only = {name: options.get(name, False) for name in ("slots", "kw_only")}
    is_derived = any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:])
    fields_only["frozen"] = frozen and is_derived  # must be said where the base is, and costs there
    result = _with_fields(cls, fields_only)
    said = vars(result)["__dataclass_params__"]  # what classes derived from this one are checked against
    said.frozen, said.eq, said.init, said.repr = frozen, eq, True, True
    for name, method in _methods(result, frozen=frozen, eq=eq, slots=fields_only["slots"]).items():
        if name not in vars(result) or (name == "__hash__" and vars(result)[name] is None):
            setattr(result, name, method)
    return result


def _with_fields(cls: type, options: Mapping[str, bool]) -> type:
    """The standard decorator's fields. It looks for ClassVar in the text of every type, unless that is no text."""
    types = cls.__annotations__
    cls.__annotations__ = {name: kind if "ClassVar" in kind else object for name, kind in types.items()}
    result: type = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    cls.__annotations__ = result.__annotations__ = types
    known = vars(result)["__dataclass_fields__"]
    for name, kind in types.items():
        known[name].type = kind
    return result


def _is_usual(cls: type, options: Mapping[str, bool]) -> bool:
    """Whether this module makes the methods."""
    values = [value for value in vars(cls).values() if isinstance(value, Field)]
    return (
        _OPTIONS.issuperset(options)
        and all(
            isinstance(kind, str) and "InitVar" not in kind and "KW_ONLY" not in kind for kind in cls.__annotations__.values()
        )
        and all(value.init or (value.default is value.default_factory is MISSING) for value in values)
    )


def _methods(cls: type, *, frozen: bool, eq: bool, slots: bool) -> dict[str, Any]:
    fields = dataclasses.fields(cls)
    shown = tuple(attribute.name for attribute in fields if attribute.repr)
    methods: dict[str, Any] = {"__init__": _initialiser(cls, fields, frozen=frozen), "__repr__": _representation(shown)}
    if eq:
        methods["__eq__"] = _equality(_values([attribute.name for attribute in fields if attribute.compare]))
        hashed = [attribute.name for attribute in fields if (attribute.compare if attribute.hash is None else attribute.hash)]
        methods["__hash__"] = _hash(_values(hashed)) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
    if frozen and slots:
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    return methods


def _initialiser(cls: type, fields: Sequence[Field[Any]], *, frozen: bool) -> FunctionType:
    parameters = sorted((attribute for attribute in fields if attribute.init), key=lambda attribute: bool(attribute.kw_only))
    made = tuple(attribute.default_factory is not MISSING for attribute in parameters)
    positional = sum(not attribute.kw_only for attribute in parameters)
    slots: list[Any] = [getattr(cls, attribute.name, None) for attribute in parameters] if frozen else []
    by_slot = bool(slots) and all(isinstance(slot, MemberDescriptorType) for slot in slots)
    code = _initialisation(made, positional, frozen=frozen, by_slot=by_slot, checked=hasattr(cls, "__post_init__"))
    values = {f"make_{index}": attribute.default_factory for index, attribute in enumerate(parameters) if made[index]}
    if by_slot:
        values |= {f"put_{index}": slot.__set__ for index, slot in enumerate(slots)}
    result = _function(cls, code, [attribute.name for attribute in parameters], values)
    defaults = {
        attribute.name: _MADE if attribute.default_factory is not MISSING else attribute.default for attribute in parameters
    }
    result.__kwdefaults__ = {attribute.name: defaults.pop(attribute.name) for attribute in parameters[positional:]}
    _give_defaults(result, defaults)
    result.__annotations__ = {attribute.name: attribute.type for attribute in parameters} | {"return": None}
    return result


def _give_defaults(function: FunctionType, defaults: Mapping[str, Any]) -> None:
    """Defaults of the positional parameters, of which the last ones have some, and of those by keyword."""
    given = [name for name, value in defaults.items() if value is not MISSING]
    if given != list(defaults)[len(defaults) - len(given) :]:
        raise TypeError(f"non-default argument follows default argument {given[0]!r}")
    function.__defaults__ = tuple(defaults[name] for name in given)
    by_keyword = function.__kwdefaults__ or {}
    function.__kwdefaults__ = {name: value for name, value in by_keyword.items() if value is not MISSING}


_MADE = type("_MADE", (), {"__repr__": lambda self: "<factory>"})()
"""The default of a parameter whose value a factory makes."""
_NAMES = {"put": object.__setattr__, "made": _MADE}


def _function(cls: type, code: CodeType, names: Sequence[str], values: Mapping[str, Any] = {}) -> FunctionType:
    """A method whose fields are called `names`, of code whose fields are called field_0, field_1, ..."""
    renamed = {f"field_{index}": name for index, name in enumerate(names)}

    def real(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([renamed.get(entry, entry) if isinstance(entry, str) else entry for entry in entries])

    code = code.replace(co_varnames=real(code.co_varnames), co_names=real(code.co_names), co_consts=real(code.co_consts))
    result = FunctionType(code, {**_NAMES, **values} if values else _NAMES, code.co_name)
    result.__qualname__ = f"{cls.__qualname__}.{code.co_name}"
    result.__module__ = cls.__module__
    return result


@functools.cache
def _initialisation(made: tuple[bool, ...], positional: int, *, frozen: bool, by_slot: bool, checked: bool) -> CodeType:
    """Code for so many fields, `made` by their factories or given. To fill a slot by its descriptor takes three quarters of
    the time that object.__setattr__ takes."""
    names = [f"field_{index}" for index in range(len(made))]
    parameters = ["self", *names[:positional], *(["*"] if positional < len(names) else []), *names[positional:]]
    lines = [f"def __init__({', '.join(parameters)}):"]
    for index, (name, by_factory) in enumerate(zip(names, made, strict=True)):
        value = f"make_{index}() if {name} is made else {name}" if by_factory else name
        put = f" put_{index}(self, {value})" if by_slot else f" put(self, '{name}', {value})"
        lines.append(put if frozen else f" self.{name} = {value}")
    return _compiled("\n".join([*lines, " self.__post_init__()" if checked else " pass"]))


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these attributes of a record."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple([getattr(record, name) for name in names])


def _equality(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _compiled(text: str) -> CodeType:
    module = compile(text, f"<{__name__}>", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def _representation(names: tuple[str, ...]) -> Any:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refuse_setting(self: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, attribute.name) for attribute in dataclasses.fields(self)]


def _set_state(self: Any, state: Sequence[Any]) -> None:
    for attribute, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, attribute.name, value)
