"""Puts the code of a library into this process: an object for x86-64 on Linux by what a linker does, any other one by LLVM.

Importing LLVM takes longer than compiling a small model, and an object of ours (`npu.native.link`) needs little of it: its
sections lie side by side in memory, the distances between them are written where its relocations say, and the C library is
reached by jumps. What else an object may hold is not known here and left to LLVM. Layouts: System V ABI, supplement for AMD64.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Mapping
from typing import Any

from npu.native import cpu

_X86_64 = 62
_SYMBOLS, _RELOCATIONS, _ZEROS = 2, 4, 8
"""Types of sections."""
_IN_MEMORY, _CODE = 2, 4
"""Flags of sections."""
_ADDRESS, _DISTANCES = 1, (2, 4)
"""Relocations: R_X86_64_64; R_X86_64_PC32 and R_X86_64_PLT32."""
_JUMP = b"\xff\x25\x00\x00\x00\x00"
"""jmp *0(%rip): to the address that follows."""
_JUMP_BYTES = 16


class MachineCode:
    """The entries of an object in memory, which is there as long as `memory`."""

    def __init__(self, addresses: Mapping[str, int], memory: mmap.mmap) -> None:
        self.addresses, self.memory = addresses, memory

    def get_function_address(self, name: str) -> int:
        """The address of an entry, 0 if there is none."""
        return self.addresses.get(name, 0)


class _Unknown(Exception):
    """An object that is left to LLVM."""


class _ObjectSection:
    """A section header; to declare it as a tuple with names would take longer than to load a library."""

    def __init__(self, header: tuple[int, ...]) -> None:
        self.kind, self.flags = header[1:3]
        self.offset, self.size, self.link, self.info, self.alignment = header[4:9]


class _Symbol:
    def __init__(self, entry: tuple[int, ...]) -> None:
        self.name, self.info, _, self.section, self.value, _ = entry


def load(code: bytes) -> Any:
    """What tells addresses by `get_function_address` and must be kept. The object must be whole and made for this CPU."""
    try:
        return _Linker(code).link()
    except (_Unknown, OSError):  # OSError: memory that may not hold code
        return _load_by_llvm(code)


class _Linker:
    """One object on its way into memory: code first, then on pages of their own what may be written."""

    def __init__(self, code: bytes) -> None:
        machine, start, count = struct.unpack_from("<18xH20xQ12xH", code)
        if (machine, cpu.PLATFORM, cpu.this_machine()) != (_X86_64, "linux", cpu.X86_64):
            raise _Unknown
        self._code = code
        self._sections = [_ObjectSection(struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * index)) for index in range(count)]
        table = next(section for section in self._sections if section.kind == _SYMBOLS)
        self._symbols = [_Symbol(row) for row in struct.iter_unpack("<IBBHQQ", self._content(table))]
        self._names = self._content(self._sections[table.link])
        self._places: dict[int, int] = {}
        self._jumps: dict[str, int] = {}
        self._size = 0

    def link(self) -> MachineCode:
        """The code, ready to be called."""
        code_bytes = self._arrange()
        self._memory = mmap.mmap(-1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._fill()
        for section in self._sections:
            if section.kind == _RELOCATIONS and section.info in self._places:
                self._relocate(section)
        _make_code(self._base, code_bytes)
        entries = [symbol for symbol in self._symbols if symbol.info >> 4 and symbol.section]  # not local
        return MachineCode({self._name(symbol): self._address(symbol) for symbol in entries}, self._memory)

    def _arrange(self) -> int:
        """Give everything its place. The result is the bytes of the pages of code."""
        held = [index for index, section in enumerate(self._sections) if section.flags & _IN_MEMORY]
        for index in held:
            if self._sections[index].flags & _CODE:
                self._places[index] = self._room(self._sections[index].size, self._sections[index].alignment)
        for symbol in self._symbols[1:]:
            if not symbol.section:
                self._jumps[self._name(symbol)] = self._room(_JUMP_BYTES, _JUMP_BYTES)
        code_bytes = self._room(0, mmap.PAGESIZE)
        for index in held:
            if not self._sections[index].flags & _CODE:
                self._places[index] = self._room(self._sections[index].size, self._sections[index].alignment)
        self._room(0, mmap.PAGESIZE)
        return code_bytes

    def _room(self, size: int, alignment: int) -> int:
        place = -(-self._size // max(alignment, 1)) * max(alignment, 1)
        self._size = place + size
        return place

    def _fill(self) -> None:
        for index, place in self._places.items():
            content = self._content(self._sections[index])
            self._memory[place : place + len(content)] = content
        for name, place in self._jumps.items():
            self._memory[place : place + _JUMP_BYTES] = _JUMP + struct.pack("<Qxx", _of_c_library(name))

    def _relocate(self, section: _ObjectSection) -> None:
        for offset, kind, index, addend in struct.iter_unpack("<QIIq", self._content(section)):
            place = self._places[section.info] + offset
            value = self._address(self._symbols[index]) + addend
            if kind == _ADDRESS:
                struct.pack_into("<Q", self._memory, place, value)
            elif kind in _DISTANCES:
                struct.pack_into("<i", self._memory, place, value - self._base - place)
            else:
                raise _Unknown

    def _address(self, symbol: _Symbol) -> int:
        if not symbol.section:
            return self._base + self._jumps[self._name(symbol)]
        if symbol.section not in self._places:
            raise _Unknown
        return self._base + self._places[symbol.section] + symbol.value

    def _name(self, symbol: _Symbol) -> str:
        return self._names[symbol.name : self._names.index(b"\0", symbol.name)].decode()

    def _content(self, section: _ObjectSection) -> bytes:
        return b"" if section.kind == _ZEROS else self._code[section.offset : section.offset + section.size]


def _of_c_library(name: str) -> int:
    for library in (None, "libm.so.6"):  # Python itself mostly has both parts
        function = getattr(ctypes.CDLL(library), name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise _Unknown


def _make_code(address: int, size: int) -> None:
    """Memory that may be executed and no longer written."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "mprotect")


def _load_by_llvm(code: bytes) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(cpu.current().triple).create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
