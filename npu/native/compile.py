"""Kernels to LLVM modules by numba, whose private parts this file and `npu.native.passes` alone use.

numba types and lowers each kernel once. Its own optimiser and its machine code are left out: what it hands to a library is kept
as text, and `npu.native.link` optimises all of it together, for any CPU. A process that has compiled here must not call what
numba compiled: there is no machine code behind it.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numba as nb
from llvmlite import ir
from numba import _dynfunc
from numba.core import cgutils, compiler
from numba.core.codegen import CodeLibrary
from numba.core.imputils import lower_builtin
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import AbstractTemplate, ConcreteTemplate
from numba.np.numpy_support import from_dtype

from npu.native import types as ty
from npu.native.kernel import Inlined, Intrinsic, Kernel, RowsAt
from npu.native.passes import KernelCompiler, remember_calls

WORD, DOUBLE, STATUS = ir.IntType(64), ir.DoubleType(), ir.IntType(32)


class _LlvmText(CodeLibrary):  # type: ignore[misc]
    """A numba library that keeps its modules as text, and what they call."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.modules: list[str] = []
        self.callees: dict[_LlvmText, None] = {}

    def add_ir_module(self, ir_module: ir.Module) -> None:
        self.modules.append(str(ir_module))

    def add_linking_library(self, library: _LlvmText) -> None:
        self.callees[library] = None

    def finalize(self) -> None:
        self._finalized = True

    def get_function(self, name: str) -> Any:
        raise NotImplementedError

    def get_llvm_str(self) -> str:
        return "\n".join(self.modules)

    def get_asm_str(self) -> str:
        raise NotImplementedError


@functools.cache
def _context() -> Any:
    context = cpu_target.target_context
    context.codegen()._library_class = _LlvmText
    context.allow_dynamic_globals = False  # addresses of this process
    context.get_executable = _no_executable
    context.get_abi_sizeof = functools.cache(context.get_abi_sizeof)  # which asks LLVM by a module of its own
    remember_calls(cpu_target.typing_context)
    return context


def _no_executable(library: _LlvmText, descriptor: Any, environment: Any) -> Any:
    """What numba hands out as the compiled function: it has no machine code."""
    return _dynfunc.make_function(descriptor.lookup_module(), descriptor.qualname, "", 1, environment, (library,))


def _numba_type(kind: ty.ScalarType | ty.ArrayType) -> Any:
    element = nb.boolean if kind.dtype.kind == "b" else from_dtype(kind.dtype)
    if isinstance(kind, ty.ScalarType):
        return element
    return nb.types.Array(element, kind.ndim, "C", readonly=kind.is_constant)


@functools.cache
def _signature(signature: ty.KernelSignature) -> Any:
    returns = [_numba_type(scalar) for scalar in signature.returns]
    result = nb.types.UniTuple(returns[0], len(returns)) if signature.is_tuple and returns else (*returns, nb.void)[0]
    return result(*map(_numba_type, signature.arguments))


@functools.cache
def _compiled(kernel: Kernel) -> Any:
    """numba's result for a kernel: a library and how its function is called."""
    wanted = _signature(kernel.signature)
    return _by_numba(kernel.function, wanted.args, wanted.return_type, _flags(kernel.error_model))


def _by_numba(function: Any, arguments: tuple[Any, ...], returns: Any, flags: Any) -> Any:
    context = _context()
    return compiler.compile_extra(
        cpu_target.typing_context, context, function, arguments, returns, flags, {}, pipeline_class=KernelCompiler
    )


def _flags(error_model: str) -> Any:
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt, flags.error_model = True, error_model
    return flags


def _function_type(key: object, *signatures: Any) -> Any:
    template = type("Template", (ConcreteTemplate,), {"key": key, "cases": list(signatures)})
    return nb.types.Function(template)


@functools.cache
def type_of_kernel(kernel: Kernel) -> Any:
    """How numba types a call of a kernel from another one."""
    wanted = _signature(kernel.signature)

    @lower_builtin(kernel, *wanted.args)
    def lower(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        result = _compiled(kernel)
        context.add_linking_libs([result.library])
        return context.call_internal(builder, result.fndesc, signature, arguments)

    return _function_type(kernel, wanted)


@functools.cache
def type_of_intrinsic(intrinsic: Intrinsic) -> Any:
    """How numba types a call of an intrinsic."""
    wanted = _signature(intrinsic.signature)

    @lower_builtin(intrinsic, *wanted.args)
    def lower(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        value = intrinsic.emit(builder, *arguments)
        return context.get_dummy_value() if value is None else value

    return _function_type(intrinsic, wanted)


@functools.cache
def type_of_inlined(inlined: Inlined[Any]) -> Any:
    """How numba types a call of an inlined function: as that of one compiled for these types, which LLVM inlines.

    numba could inline it by itself, but would look for the types of every copy again, which takes many times as long.
    """
    described = inspect.signature(inlined.py_func)

    class InlinedTemplate(AbstractTemplate):  # type: ignore[misc]
        def generic(self, arguments: Any, named: Any) -> Any:
            bound = described.bind(*arguments, **named)
            given = tuple(map(nb.types.unliteral, bound.args))
            return _specialised(inlined, given, _error_model()).signature.replace(pysig=described)

    InlinedTemplate.key = inlined

    @lower_builtin(inlined, nb.types.VarArg(nb.types.Any))
    def lower(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        result = _specialised(inlined, signature.args, _error_model())
        context.add_linking_libs([result.library])
        return context.call_internal(builder, result.fndesc, signature, arguments)

    return nb.types.Function(InlinedTemplate)


def _error_model() -> str:
    """That of the kernel that is being compiled."""
    model: str = ConfigStack().top().error_model
    return model


@functools.cache
def _specialised(inlined: Inlined[Any], arguments: tuple[Any, ...], error_model: str) -> Any:
    """numba's result for an inlined function with arguments of these types."""
    flags = _flags(error_model)
    flags.forceinline = True
    return _by_numba(inlined.py_func, arguments, None, flags)


@functools.cache
def type_of_rows(rows: RowsAt) -> Any:
    """How numba types a call of a `RowsAt`."""
    array = ty.ArrayType(rows.element.dtype, rows.ndim)
    kind = _numba_type(array)
    wanted = kind(*[nb.int64] * (rows.ndim + rows.has_length))

    @lower_builtin(rows, *wanted.args)
    def lower(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        address, *shape = arguments
        return _array(context, builder, array, kind, [address, *([] if rows.has_length else [WORD(0)]), *shape])

    return _function_type(rows, wanted)


@functools.cache
def type_of_keep(key: object) -> Any:
    """How numba types a mention of arrays."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, arguments: Any, _named: Any) -> Any:
            return nb.void(*arguments)

    Template.key = key

    @lower_builtin(key, nb.types.VarArg(nb.types.Any))
    def lower(context: Any, _builder: ir.IRBuilder, _signature: Any, _arguments: Any) -> Any:
        return context.get_dummy_value()

    return nb.types.Function(Template)


def modules_of(kernels: Iterable[Kernel]) -> Iterator[str]:
    """The LLVM modules of kernels with an entry each, and of all that they call."""
    context, seen = _context(), set[_LlvmText]()
    for kernel in kernels:
        yield str(_entry(context, kernel))
        waiting = [_compiled(kernel).library]
        while waiting:
            library = waiting.pop()
            if library not in seen:
                seen.add(library)
                yield from library.modules
                waiting.extend(library.callees)


def _entry(context: Any, kernel: Kernel) -> ir.Module:
    """A module with the entry that `npu.native.call` calls."""
    descriptor, module = _compiled(kernel).fndesc, context.create_module(kernel.symbol)
    kinds: list[ir.Type] = []
    for kind in kernel.signature.arguments:
        is_real = isinstance(kind, ty.ScalarType) and kind.dtype.kind == "f"
        kinds += [DOUBLE] if is_real else [WORD] * (1 + kind.ndim if isinstance(kind, ty.ArrayType) else 1)
    out = [WORD] if kernel.signature.returns else []
    function = ir.Function(module, ir.FunctionType(STATUS, [*kinds, *out]), kernel.symbol)
    builder, words = ir.IRBuilder(function.append_basic_block()), iter(function.args)
    arguments = [
        _argument(context, builder, kind, wanted, words)
        for kind, wanted in zip(kernel.signature.arguments, descriptor.argtypes, strict=True)
    ]
    callee = context.declare_function(module, descriptor)
    status, value = context.call_conv.call_function(builder, callee, descriptor.restype, descriptor.argtypes, arguments)
    with cgutils.if_unlikely(builder, status.is_error):
        builder.ret(STATUS(1))
    returned = cgutils.unpack_tuple(builder, value) if kernel.signature.is_tuple and out else [value] * len(out)
    for k, (scalar, number) in enumerate(zip(kernel.signature.returns, returned, strict=True)):
        wide = _wide(builder, scalar, number)
        builder.store(wide, builder.inttoptr(builder.add(function.args[-1], WORD(8 * k)), wide.type.as_pointer()))
    builder.ret(STATUS(0))
    return module


def _argument(
    context: Any, builder: ir.IRBuilder, kind: ty.ScalarType | ty.ArrayType, wanted: Any, words: Iterator[Any]
) -> Any:
    """What numba's function takes, from the words of the entry."""
    word = next(words)
    if isinstance(kind, ty.ArrayType):
        return _array(context, builder, kind, wanted, [word, *(next(words) for _ in range(kind.ndim))])
    narrow = context.get_value_type(wanted)
    if kind.dtype.kind == "V":
        return builder.inttoptr(word, narrow)
    if kind.dtype.kind == "f":
        return builder.fptrunc(word, narrow) if narrow != DOUBLE else word
    return builder.trunc(word, narrow) if narrow != WORD else word


def _array(context: Any, builder: ir.IRBuilder, kind: ty.ArrayType, wanted: Any, words: Sequence[Any]) -> Any:
    """A C-contiguous array of an address and extents, without an owner."""
    address, *shape = words
    strides = [WORD(kind.dtype.itemsize)]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    array = context.make_array(wanted)(context, builder)
    pointer = builder.inttoptr(address, array.data.type)
    context.populate_array(array, data=pointer, shape=shape, strides=strides, itemsize=WORD(kind.dtype.itemsize), meminfo=None)
    return array._getvalue()


def _wide(builder: ir.IRBuilder, scalar: ty.ScalarType, number: Any) -> Any:
    """A number as the 8 bytes that Python reads."""
    if scalar.dtype.kind == "f":
        return builder.fpext(number, DOUBLE) if number.type != DOUBLE else number
    if number.type == WORD:
        return number
    return (builder.sext if scalar.dtype.kind == "i" else builder.zext)(number, WORD)
