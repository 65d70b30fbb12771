"""ExecuTorch programs (.pte) whose Ethos-U delegate holds a command stream of Vela's: read as compiled models."""

IDENTIFIER = b"ET12"
"""Of the flatbuffer of a program (schema/program.fbs)."""


def is_pte(content: bytes) -> bool:
    """Whether the bytes begin as an ExecuTorch program does."""
    return content[4:8] == IDENTIFIER
