"""`dataclass` as the standard library has it, made in a tenth of the time: every process makes two hundred of them.

The standard decorator writes the methods of every class as text and compiles it. Here a class gets its methods when the first
of them is asked for, since most classes of a process are never made an instance of; initialisers of the same form share one
compiled code, in which the names of the fields are put in place of others. What is rare (`order`, InitVar) is left to the
standard decorator, and `field`, `fields`, `replace` and `asdict` are its own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field
from operator import attrgetter, itemgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from npu import initialisers

_OPTIONS = {"frozen", "slots", "eq", "kw_only"}
_FIELD = dataclasses._FIELD  # type: ignore[attr-defined]
"""What `dataclasses.fields` knows a field by."""

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """`dataclasses.replace`, which looks at every field again."""
        names, places, read = _given(type(record))
        if places is None or not changes.keys() <= places.keys():
            return type(record)(**dict(zip(names, read(record), strict=True)) | changes)
        values = list(read(record))
        for name, value in changes.items():
            values[places[name]] = value
        return type(record)(*values)

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """`dataclasses.dataclass`."""
        return functools.partial(_record, options=options) if cls is None else _record(cls, options)


@functools.cache
def _given(cls: type) -> tuple[tuple[str, ...], Mapping[str, int] | None, Callable[[Any], tuple[Any, ...]]]:
    """The fields that the initialiser takes, their places if all have one, and what reads them."""
    names, _, _, _, by_keyword = _parameters(cls)
    has_places = True not in by_keyword
    return tuple(names), {name: place for place, name in enumerate(names)} if has_places else None, _values(names)


class _Later:
    """An attribute of records that is made for each class when it is first asked for."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[type], Any]) -> None:
        self.name, self.make = name, make

    def __get__(self, instance: object, owner: type) -> Any:
        # `inspect` of Python 3.13 asks for what a class has as it would ask an instance.
        classes = (*owner.__mro__, *(instance.__mro__ if isinstance(instance, type) else ()))
        record = next(one for one in classes if vars(one).get(self.name) is self)
        made = self.make(record)
        setattr(record, self.name, made)
        return made.__get__(instance, owner) if isinstance(made, FunctionType) else made


_Parameter: TypeAlias = tuple[str, str, Any, Any, bool]
"""Of a field that the initialiser takes: name, type, default, what makes one, and whether it is by keyword.

Most records need no more of their fields than that; to make a `Field` of each takes as long as the initialiser does.
"""


class _Form:
    """What a class says of its own fields: types and what is given for them, and the options of the decorator."""

    __slots__ = ("bases", "eq", "frozen", "given", "kw_only", "types")

    def __init__(self, cls: type, options: Mapping[str, bool]) -> None:
        own = vars(cls)
        self.types: dict[str, str] = own.get("__annotations__", {})
        self.given = {name: own[name] for name in self.types if name in own}
        self.frozen, self.eq = options.get("frozen", False), options.get("eq", True)
        self.kw_only = options.get("kw_only", False)
        self.bases = _bases(cls)

    @property
    def is_doubtful(self) -> bool:
        """Whether a default may be one that is refused: it changes, or a field without one stands behind it."""
        given = self.given
        for value in given.values():
            if value.__hash__ is None:
                return True
        if self.kw_only or not (given or self.bases):
            return False
        last = list(self.types)[len(self.types) - len(given) :]
        follows = len(last) < len(self.types) and any(_has_default(base) for base in self.bases)
        return follows or list(given) != last

    def parameters(self) -> dict[str, _Parameter | None]:
        """What the initialiser takes for each field, those of the bases first; None for one that is not given."""
        result: dict[str, _Parameter | None] = {}
        for base in self.bases:
            form = vars(base).get(_FORM)
            result |= form.own_parameters() if form else _parameters_of_other(base)
        return result | self.own_parameters()

    def own_parameters(self) -> dict[str, _Parameter | None]:
        """The same for the fields of the class itself."""
        result: dict[str, _Parameter | None] = {}
        for name, kind in self.types.items():
            if "ClassVar" not in kind:
                given = self.given.get(name, MISSING)
                if isinstance(given, Field):
                    result[name] = _parameter(given, name, kind, self.kw_only)
                else:
                    result[name] = name, kind, given, MISSING, self.kw_only
                    _require_constant(name, given)
        return result

    def fields(self, cls: type) -> dict[str, Field[Any]]:
        """`__dataclass_fields__`, those of the bases first."""
        result: dict[str, Field[Any]] = {}
        for base in self.bases:
            result |= base.__dataclass_fields__
        for name, kind in self.types.items():
            if "ClassVar" not in kind:
                result[name] = self._field(name, kind)
        return result

    def _field(self, name: str, kind: str) -> Field[Any]:
        given = self.given.get(name, MISSING)
        result: Field[Any] = given if isinstance(given, Field) else field(default=given)
        _require_constant(name, result.default)
        result.name, result.type, result._field_type = name, kind, _FIELD  # type: ignore[attr-defined]
        if result.kw_only is MISSING:
            result.kw_only = self.kw_only
        return result

    def options(self, cls: type) -> Any:
        """What classes derived from this one are checked against."""
        bare: type = dataclasses.dataclass(init=False, repr=False, eq=False)(type(cls.__name__, (), {"__doc__": "_"}))
        said = vars(bare)["__dataclass_params__"]
        said.frozen, said.eq, said.init, said.repr = self.frozen, self.eq, True, True
        return said


def _parameter(given: Field[Any], name: str, kind: str, by_keyword: bool) -> _Parameter | None:
    """What the initialiser takes for a field; `by_keyword` unless it says so itself."""
    _require_constant(name, given.default)
    if not given.init:
        return None
    return name, kind, given.default, given.default_factory, by_keyword if given.kw_only is MISSING else bool(given.kw_only)


def _parameters_of_other(record: type) -> dict[str, _Parameter | None]:
    """Of a class that the standard decorator made."""
    return {one.name: _parameter(one, one.name, str(one.type), False) for one in dataclasses.fields(record)}


def _require_constant(name: str, default: object) -> None:
    if default.__hash__ is None:
        raise ValueError(f"mutable default {type(default)} for field {name} is not allowed: use default_factory")


def _record(cls: type, options: Mapping[str, bool]) -> type:
    form, has_slots = _Form(cls, options), options.get("slots", False)
    if not _is_usual(form, options):
        return dataclasses.dataclass(**options)(cls)
    result = _made(cls, form, _attributes(form, cls, has_slots=has_slots), has_slots=has_slots)
    if form.is_doubtful:
        vars(result)["__init__"].__get__(None, result)  # says here what is wrong, not where the first instance is made
    return result


def _attributes(form: _Form, cls: type, *, has_slots: bool) -> dict[str, Any]:
    """What the decorator adds; methods of the class itself stay."""
    own, methods = vars(cls), _methods(form.eq, form.frozen, has_slots)
    result = {"__dataclass_fields__": _FIELDS, "__dataclass_params__": _PARAMETERS, _FORM: form, **methods}
    for name in own.keys() & methods.keys():
        if own[name] is not None:
            del result[name]
    return result


@functools.lru_cache(8)
def _methods(eq: bool, frozen: bool, has_slots: bool) -> dict[str, Any]:
    """The methods of records with these options."""
    result: dict[str, Any] = {name: _Later(name, make) for name, make in _MADE_LATER.items()}
    if eq:
        result |= {"__eq__": _Later("__eq__", _equality), "__hash__": _Later("__hash__", _hash) if frozen else None}
    if frozen:
        result |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
        if has_slots:
            result |= {"__getstate__": _state, "__setstate__": _set_state}
    return result


def _made(cls: type, form: _Form, attributes: Mapping[str, Any], *, has_slots: bool) -> type:
    """The class with its attributes; a new one if it has slots, which come while a class is made."""
    if has_slots:
        names = [name for name, kind in form.types.items() if "ClassVar" not in kind]
        left_out = {"__dict__", "__weakref__", *names}
        kept = {name: value for name, value in vars(cls).items() if name not in left_out}
        if form.bases:
            inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
            names = [name for name in form.parameters() if name not in inherited]
        result = type(cls)(cls.__name__, cls.__bases__, {**kept, **attributes, "__slots__": tuple(names)})
        result.__qualname__ = cls.__qualname__
        return result
    for name, value in form.given.items():
        if isinstance(value, Field):
            if value.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, value.default)
    for name, value in attributes.items():
        setattr(cls, name, value)
    return cls


def _bases(cls: type) -> list[Any]:
    """The records that a class is derived from, the most basic one first."""
    return [base for base in cls.__mro__[:0:-1] if "__dataclass_fields__" in vars(base)]


def _has_default(record: type) -> bool:
    fields = (one for one in dataclasses.fields(record) if one.init and not one.kw_only)
    return any(not (one.default is one.default_factory is MISSING) for one in fields)


def _is_frozen(record: type) -> bool:
    dataclasses.fields(record)  # which makes the methods of a record that comes about later
    return any("__setattr__" in vars(base) for base in record.__mro__[:-1])


def _is_usual(form: _Form, options: Mapping[str, bool]) -> bool:
    """Whether this module makes the methods."""
    kinds = form.types.values()
    if not _OPTIONS.issuperset(options) or not {str}.issuperset(map(type, kinds)):
        return False
    text = " ".join(kinds)
    given = [value for value in form.given.values() if isinstance(value, Field)]
    return (
        "InitVar" not in text
        and "KW_ONLY" not in text
        and all([_is_frozen(base) == form.frozen for base in form.bases])
        and all([value.init or value.default is value.default_factory for value in given])
    )


def _initialiser(cls: type) -> FunctionType:
    """`__init__`. What differs from that of another class with as many fields are names, and which are by keyword."""
    names, kinds, defaults, factories, by_keyword = _parameters(cls)
    made, _, by_slot, _ = form = _form_of(cls, names, factories)
    code, values = _initialisation(form), dict(_NAMES)
    if True in made:
        defaults = [_MADE if is_made else default for is_made, default in zip(made, defaults, strict=True)]
        values |= {f"make_{index}": factory for index, factory in enumerate(factories) if made[index]}
    if by_slot:
        values.update(zip(_numbered(len(names)), [getattr(cls, name).__set__ for name in names], strict=True))
    else:
        code = _renamed(code, names)
    count = len(names) - sum(by_keyword)
    code = code.replace(co_argcount=1 + count, co_kwonlyargcount=len(names) - count, co_varnames=("self", *names))
    result = FunctionType(code, values, "__init__", _given_last(names, defaults[:count]))
    last = zip(names[count:], defaults[count:], strict=True)
    result.__kwdefaults__ = {name: default for name, default in last if default is not MISSING}
    result.__qualname__, result.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    result.__annotations__ = dict(zip(names, kinds, strict=True))
    result.__annotations__["return"] = None
    return result


@functools.cache
def _numbered(count: int) -> tuple[str, ...]:
    """What the code of an initialiser calls that which fills its slots."""
    return tuple([f"put_{index}" for index in range(count)])


def _renamed(code: CodeType, names: Sequence[str]) -> CodeType:
    """Code that knows its fields as f0, f1, ... by their names; what fills slots knows them by number alone."""
    real = {f"f{index}": name for index, name in enumerate(names)}
    constants = [real.get(one, one) if isinstance(one, str) else one for one in code.co_consts]
    return code.replace(co_names=tuple([real.get(one, one) for one in code.co_names]), co_consts=tuple(constants))


def _given_last(names: Sequence[str], defaults: Sequence[Any]) -> tuple[Any, ...]:
    """Defaults of the positional parameters, of which the last ones have some."""
    count = len(defaults)
    while count and defaults[count - 1] is not MISSING:
        count -= 1
    wrong = next((name for name, default in zip(names, defaults[:count], strict=False) if default is not MISSING), None)
    if wrong is not None:
        raise TypeError(f"non-default argument follows default argument {wrong!r}")
    return tuple(defaults[count:])


_MADE = type("_MADE", (), {"__repr__": lambda self: "<factory>"})()
"""The default of a parameter whose value a factory makes."""
_NAMES = {"put": object.__setattr__, "made": _MADE}


Initialisation = tuple[tuple[bool, ...], bool, bool, bool]
"""What the code of an initialiser depends on: which fields are made by their factories if they are not given, whether the
record is frozen, whether slots are filled by their descriptors, and whether `__post_init__` follows."""


def initialiser_name(form: Initialisation) -> str:
    """What the initialiser is called in `npu.initialisers`."""
    made, frozen, by_slot, checked = form
    by_factory = [str(index) for index, is_made in enumerate(made) if is_made]
    words = ["fill" if by_slot else "set" if frozen else "assign", str(len(made))]
    return "_".join([*words, *(["made", *by_factory] if by_factory else []), *(["checked"] if checked else [])])


def initialiser_text(name: str, form: Initialisation) -> str:
    """To fill a slot by its descriptor takes three quarters of the time that object.__setattr__ takes."""
    made, frozen, by_slot, checked = form
    names = [f"f{index}" for index in range(len(made))]
    lines = [f"def {name}({', '.join(['self', *names])}):"]
    for index, (field_name, by_factory) in enumerate(zip(names, made, strict=True)):
        value = f"make_{index}() if {field_name} is made else {field_name}" if by_factory else field_name
        put = f"    put_{index}(self, {value})" if by_slot else f'    put(self, "{field_name}", {value})'
        lines.append(put if frozen else f"    self.{field_name} = {value}")
    return "\n".join([*lines, *(["    self.__post_init__()"] if checked else []), *([] if made or checked else ["    pass"])])


def is_made_here(cls: type) -> bool:
    """Whether a class is a record whose methods this module makes, not the standard decorator."""
    return _FORM in vars(cls)


def initialisation_of(cls: type) -> Initialisation:
    """The form of the initialiser of a record."""
    names, _, _, factories, _ = _parameters(cls)
    return _form_of(cls, names, factories)


def _form_of(cls: type, names: Sequence[str], factories: Sequence[Any]) -> Initialisation:
    made = tuple([factory is not MISSING for factory in factories])
    frozen = vars(cls)[_FORM].frozen
    by_slot = frozen and {type(getattr(cls, name, None)) for name in names} == {MemberDescriptorType}
    return made, frozen, by_slot, hasattr(cls, "__post_init__")


def _parameters(cls: type) -> Sequence[Sequence[Any]]:
    """What the initialiser takes, those by keyword last: names, types, defaults, what makes them, and which are by keyword."""
    form = vars(cls).get(_FORM)
    known = form.parameters() if form else _parameters_of_other(cls)
    taken = sorted([one for one in known.values() if one is not None], key=itemgetter(4))
    return tuple(zip(*taken, strict=True)) or ((),) * 5


@functools.cache
def _initialisation(form: Initialisation) -> CodeType:
    """Code of this form: that of `npu.initialisers`, or compiled here."""
    ahead = vars(initialisers).get(initialiser_name(form))
    if ahead is None:
        return _compiled(initialiser_text("__init__", form))
    code: CodeType = ahead.__code__
    return code


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these attributes of a record."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple([getattr(record, name) for name in names])


def _match_args(cls: type) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in dataclasses.fields(cls) if attribute.init and not attribute.kw_only)


def _equality(cls: type) -> Any:
    values = _values([attribute.name for attribute in dataclasses.fields(cls) if attribute.compare])

    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(cls: type) -> Any:
    fields = dataclasses.fields(cls)
    values = _values([one.name for one in fields if (one.compare if one.hash is None else one.hash)])

    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _compiled(text: str) -> CodeType:
    module = compile(text, f"<{__name__}>", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def _representation(cls: type) -> Any:
    names = [attribute.name for attribute in dataclasses.fields(cls) if attribute.repr]

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


_FORM = "__record_form__"
"""The attribute of a class that keeps its form."""
_FIELDS = _Later("__dataclass_fields__", lambda cls: vars(cls)[_FORM].fields(cls))
_PARAMETERS = _Later("__dataclass_params__", lambda cls: vars(cls)[_FORM].options(cls))
_MADE_LATER = {"__match_args__": _match_args, "__init__": _initialiser, "__repr__": _representation}
