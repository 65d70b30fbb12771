"""Delegates that are loaded at run time, by Python module or shared library; the only place that knows the plug-in interface.

A plug-in offers two functions, in Python with the names and the order of arguments of the C interface:

    tflite_plugin_create_delegate(keys, values, count, report_error) -> delegate, None on failure
    tflite_plugin_destroy_delegate(delegate)

A shared library is loaded through ctypes: options, the error callback, creation and destruction work. What it creates is a C
structure that calls back into the C interpreter it was compiled for; this interpreter has no such functions, so the structure
cannot be applied to a graph here, and trying to is an error that says so.
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from npu.arguments import PATH, require_type, require_type_or_none
from npu.runtime.delegate import Context, Delegate, SimpleDelegate, Status, WrappedDelegate, as_delegate
from npu.runtime.misuse import InterpreterValueError, UnreadableLibraryError
from npu.runtime.tensor import RuntimeTensor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "npulab.delegates"
"""Entry points of this group name modules that are plug-ins."""
CREATE, DESTROY = "tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate"
SHIPPED = {"dummy": "npu.runtime.dummy", "ethos-u": "sim.plugin", "xnnpack": "npu.runtime.xnnpack_plugin"}
"""Plug-ins of this project by name."""

ReportError = Callable[[str], None]
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_LIBRARY = re.compile(r".*\.(so(\.\d+)*|dylib|dll)")
_SECONDS = 60
"""That a library may take to load."""
T = TypeVar("T")


def load_delegate(library: str | Path, options: Mapping[Any, Any] | None = None) -> LoadedDelegate:
    """A delegate for `experimental_delegates`. Keys and values of `options` are passed as text.

    `library` is a shared library (.so, .so.2, .dylib, .dll), a Python file, the name of a shipped plug-in or of an entry point
    in the group `npulab.delegates`, or the dotted name of a module. InterpreterValueError (a ValueError) carries what the
    plug-in reported if it creates nothing.
    """
    require_type("load_delegate", library, PATH, "the name or path of a plug-in")
    require_type_or_none(f"load_delegate '{library}': options", options, Mapping, "a mapping of names to values")
    text = {str(key): str(value) for key, value in (options or {}).items()}
    plugin = _Library(str(library)) if _LIBRARY.fullmatch(str(library)) else _Module(str(library))
    errors: list[str] = []
    created = plugin.create(list(text), list(text.values()), errors.append)
    if created is None:
        reasons = "; ".join(errors) or "the plug-in gave no reason"
        raise InterpreterValueError(f"load_delegate '{library}': options must create a delegate, got an error: {reasons}")
    return LoadedDelegate(created, plugin.destroy)


def parse_options(keys: Sequence[str], values: Sequence[str], defaults: T, report_error: ReportError) -> T | None:
    """`defaults` (a frozen dataclass) with the given options, None after reporting an unknown key or a bad value.

    For plug-ins: bool fields take true/false/1/0, numbers their usual text, tuples a comma-separated list.
    """
    fields = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(defaults)}  # type: ignore[arg-type]
    parsed: dict[str, Any] = {}
    for key, value in zip(keys, values, strict=True):
        if key not in fields:
            report_error(f"option must be one of {', '.join(sorted(fields))}, got '{key}'")
            return None
        try:
            parsed[key] = convert(value, fields[key])
        except ValueError:
            report_error(f"option '{key}' must be of type {type(fields[key]).__name__}, got '{value}'")
            return None
    try:
        return dataclasses.replace(defaults, **parsed)  # type: ignore[type-var]
    except InterpreterValueError as error:
        report_error(str(error))
        return None


def convert(text: str, default: Any) -> Any:
    """`text` as a value of the type of `default`; ValueError if it is none."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError(text)
        return text.lower() in ("true", "1")
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return type(default)(text)


class LoadedDelegate(WrappedDelegate):
    """A delegate of a plug-in. It is destroyed once: by `delete`, or when nothing refers to it any more."""

    def __init__(self, inner: Delegate, destroy: Callable[[], None]) -> None:
        super().__init__(inner)
        self._finalizer = weakref.finalize(self, destroy)
        self._finalizer.atexit = False

    def destroy(self) -> None:
        self._finalizer()


class _Module:
    """A plug-in in Python."""

    def __init__(self, name: str) -> None:
        module = _find_module(name)
        missing = [function for function in (CREATE, DESTROY) if not callable(getattr(module, function, None))]
        if missing:
            raise InterpreterValueError(f"load_delegate '{name}': module must offer {CREATE} and {DESTROY}, it lacks {missing}")
        self._name = name
        self._create: Callable[..., Any] = getattr(module, CREATE)
        self._destroy: Callable[[Any], None] = getattr(module, DESTROY)
        self._created: Any = None

    def create(self, keys: list[str], values: list[str], report_error: ReportError) -> Delegate | None:
        try:
            created = self._create(keys, values, len(keys), report_error)
        except Exception as error:
            raise InterpreterValueError(
                f"load_delegate '{self._name}': must create a delegate, its {CREATE} raised {type(error).__name__}: {error}"
            ) from error
        if created is not None and not isinstance(created, Delegate | SimpleDelegate):
            kind = type(created).__name__
            raise InterpreterValueError(f"load_delegate '{self._name}': must create a Delegate or SimpleDelegate, got {kind}")
        self._created = created
        return None if created is None else as_delegate(created)

    def destroy(self) -> None:
        self._destroy(self._created)


class _Library:
    """A plug-in with the C interface."""

    def __init__(self, path: str) -> None:
        if Path(path).is_file():
            _try_in_a_process(Path(path).resolve())
        try:
            self._library = ctypes.CDLL(str(Path(path).resolve()) if Path(path).is_file() else path)
            self._create, self._destroy = getattr(self._library, CREATE), getattr(self._library, DESTROY)
        except (OSError, AttributeError) as error:
            kind = UnreadableLibraryError if isinstance(error, OSError) else InterpreterValueError
            raise kind(f"load_delegate '{path}': must be a shared library with {CREATE} and {DESTROY}, got: {error}") from error
        texts = ctypes.POINTER(ctypes.c_char_p)
        self._create.argtypes = [texts, texts, ctypes.c_size_t, _Callback]
        self._create.restype = ctypes.c_void_p
        self._destroy.argtypes = [ctypes.c_void_p]
        self._destroy.restype = None
        self._path = path
        self._pointer: int | None = None

    def create(self, keys: list[str], values: list[str], report_error: ReportError) -> Delegate | None:
        array = ctypes.c_char_p * len(keys)
        callback = _Callback(lambda message: report_error((message or b"").decode(errors="replace")))
        self._callback = callback  # the library may keep the pointer and call it as late as in its destroy function
        encoded = [array(*(text.encode() for text in texts)) for texts in (keys, values)]
        self._pointer = self._create(*encoded, len(keys), callback)
        return None if not self._pointer else _ForeignDelegate(self._path, self._pointer)

    def destroy(self) -> None:
        self._destroy(self._pointer)


def _try_in_a_process(path: Path) -> None:
    """InterpreterValueError for a library, cut off for example, that ends the process which loads it."""
    command = [sys.executable, "-I", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", str(path)]
    if not sys.executable:
        return
    import signal  # these two take longer to import than most of an interpreter, and few load a library
    import subprocess

    code = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS).returncode
    if code < 0:
        name = signal.Signals(-code).name
        raise InterpreterValueError(f"load_delegate '{path}': must be a complete shared library, loading it ended in {name}")


class _ForeignDelegate(Delegate):
    """The C structure that a shared library made: it can be created, passed on and destroyed, not run here."""

    def __init__(self, path: str, pointer: int) -> None:
        self.data = pointer
        self._path = path

    def name(self) -> str:
        return Path(self._path).name

    def prepare(self, context: Context) -> Status:
        context.report_error(
            f"delegate of '{self._path}': must be a Python plug-in to run in this interpreter; a C library runs in LiteRT's, "
            "whose C functions its delegate calls"
        )
        return Status.DELEGATE_ERROR

    def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
        context.report_error(f"delegate of '{self._path}': has no buffers in this interpreter")
        return Status.DELEGATE_ERROR


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # takes longer than the rest of this module

    return entry_points(group=GROUP)


def _find_module(name: str) -> ModuleType:
    if name.endswith(".py"):
        return _module_of_file(Path(name))
    target = SHIPPED.get(name)
    if target is None:
        points = [point for point in _entry_points() if point.name == name]
        target = points[0].module if points else name
    try:
        return import_module(target)
    except Exception as error:
        known = sorted({*SHIPPED, *(point.name for point in _entry_points())})
        raise InterpreterValueError(
            f"load_delegate '{name}': must be a shared library, a Python file, a module or of {', '.join(known)}, got: {error}"
        ) from error


def _module_of_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"npulab_delegate_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InterpreterValueError(f"load_delegate '{path}': must be a Python file that exists")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InterpreterValueError(f"load_delegate '{path}': must be a file that can be imported, got {reason}") from error
    return module
