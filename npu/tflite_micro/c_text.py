"""Pieces of C sources: identifiers, arrays, literals, and what every file begins with.

The linker sections are those of Arm's ethos-u core platform: `network_model_sec` for the model, `.bss.tensor_arena`,
`.bss.ethosu_scratch` for the fast scratch, `input_data_sec` and `expected_output_data_sec` for the self-test.
"""

from __future__ import annotations

import re

from npu.plain import printable
from npu.version import __version__

CACHE_LINE = 32
"""Bytes, of Cortex-M55 and M85. The driver cleans and invalidates the lines of what the NPU reads and writes; nothing else may
begin in them."""
_BYTES_A_LINE = 16
_HEX = tuple(f"0x{value:02x}," for value in range(256))


def identifier(name: str) -> str:
    """A C identifier made of a name: other characters become underscores."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "model"
    return f"model_{plain}" if plain[0].isdigit() else plain


def array_text(content: bytes) -> str:
    """The initializers of a byte array, in lines."""
    starts = range(0, len(content), _BYTES_A_LINE)
    return "\n".join(f"  {' '.join(_HEX[value] for value in content[start : start + _BYTES_A_LINE])}" for start in starts)


def head(what: str) -> str:
    return f"/* {what} Made by npu export, npulab {__version__}; do not edit. */\n"


def guarded(file: str, text: str) -> str:
    guard = f"{identifier(file).upper()}_"
    return f"#ifndef {guard}\n#define {guard}\n\n{text}\n#endif /* {guard} */\n"


def in_c(text: str) -> str:
    return f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{text}\n#ifdef __cplusplus\n}}\n#endif\n'


def array_definition(kind: str, name: str, section: str, content: bytes) -> str:
    """A definition; the section counts for ELF targets without an operating system only, a host has none of that name."""
    values = array_text(content) or "  0x00,"  # C has no empty arrays
    return f'{kind} {name}[{max(1, len(content))}] IN_SECTION("{section}") = {{\n{values}\n}};\n'


SECTION_MACRO = f"""#if defined(__arm__) && !defined(__linux__)
#define IN_SECTION(name) __attribute__((section(name), aligned({CACHE_LINE})))
#else
#define IN_SECTION(name) __attribute__((aligned({CACHE_LINE})))
#endif
"""


def in_comment(text: str) -> str:
    return printable(text).replace("*/", "* /")


def quoted(text: str) -> str:
    """The contents of a C string literal."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode("utf-8")
    )


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
