"""Reading files of text and arrays up to a size, and writing files so that nobody ever sees half of one.

The only place that does either.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from npu.errors import UserError

MOST_BYTES = 1 << 29
"""Of one file that is read as a whole; a device may never end."""
_BEGINNINGS = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")


def read_whole(path: Path) -> bytes:
    """The bytes of a file. OSError if there is nothing to read, ValueError for more than MOST_BYTES."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size  # 0 of devices and of files that the kernel makes up
        data = file.read(min(size or MOST_BYTES, MOST_BYTES) + 1)  # room is reserved for as much as is asked for
    if len(data) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
    return data


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    OSError if there is nothing to read, ValueError for other encodings and sizes.
    """
    try:
        return read_whole(path).decode("utf-8-sig")  # some editors begin a file with the mark
    except UnicodeDecodeError as error:
        raise ValueError(f"bytes that are no UTF-8 text, the first at {error.start}") from error


def load_arrays(path: Path) -> Any:
    """What numpy reads from a .npy file (an array) or a .npz archive. OSError or ValueError if there is nothing to read."""
    with path.open("rb") as file:
        beginning = file.read(6)
    if not beginning.startswith(_BEGINNINGS):
        raise ValueError("a file that does not begin as those of numpy do")
    with told_as_value_error():
        if beginning.startswith(b"PK"):
            import zipfile

            with zipfile.ZipFile(path) as archive:  # numpy would leave the file open where this fails
                _check_unpacked(sum(member.file_size for member in archive.infolist()), path.stat().st_size)
        return np.load(path, allow_pickle=False)


def _check_unpacked(unpacked: int, packed: int) -> None:
    """ValueError for an archive that is far larger than its file; arrays that are kept as they are may have any size."""
    if unpacked > max(MOST_BYTES, 2 * packed):
        raise ValueError(f"arrays of {unpacked >> 20} MiB packed into {packed >> 10} KiB; the limit is {MOST_BYTES >> 20} MiB")


def _token_error() -> type[Exception]:
    """What Python's parser raises, if anything was raised at all."""
    import tokenize

    return tokenize.TokenError


def _zip_error() -> type[Exception]:
    """The same of archives."""
    import zipfile

    return zipfile.BadZipFile


@contextmanager
def told_as_value_error() -> Iterator[None]:
    """Whatever numpy raises for a broken array becomes ValueError.

    numpy gives the header to Python's own parser, whose errors and warnings tell nothing about the file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (SyntaxError, _token_error(), EOFError, RecursionError, TypeError, IndexError, OverflowError) as error:
        raise ValueError("an array with a broken header") from error
    except (_zip_error(), NotImplementedError) as error:
        raise ValueError("a broken zip archive") from error
    except MemoryError as error:
        raise ValueError("an array that needs more memory than there is") from error


def write_atomically(path: str | Path, data: bytes) -> None:
    """Writes `data` to `path` through a temporary file in the same folder, so that a failure leaves the old file as it was.

    A new file gets the permissions that the process gives to new files, an existing one keeps its own. Raises UserError if
    the file cannot be written.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        if target.exists() and not target.is_file():  # a device or pipe, where there is no old content to keep; or a folder
            target.write_bytes(data)
            return
        if target.is_symlink():
            target = Path(os.path.realpath(target))
        beside = target.parent / f".{target.name[:100]}.{os.urandom(8).hex()}"  # tempfile takes longer to import than to use
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            temporary = beside
            file.write(data)
        os.chmod(temporary, _permissions(target))
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise UserError(f"{path}: must be writable, got {getattr(error, 'strerror', None) or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_outputs(files: Mapping[str, Path], folders: Mapping[str, Path], inputs: Collection[Path] = ()) -> None:
    """UserError if an output named by a command-line option cannot be written, is one of the inputs, or is named twice.

    To be called before the work that is to be written.
    """
    seen: dict[str, str] = {}
    read = {os.path.realpath(path) for path in inputs if os.path.isfile(path)}  # never raises, unlike Path.is_file
    for option, path in files.items():
        if str(path) == "-":
            raise UserError(f"{option} -: must be the name of a file, got the sign for standard output; /dev/stdout is one")
        if os.path.isdir(path):
            raise UserError(f"{option} {path}: must be a file, got a folder")
        if not os.path.isdir(path.parent):
            raise UserError(f"{option} {path}: must lie in a folder that exists, got {path.parent}")
        place = os.path.realpath(path)
        if place in read:
            raise UserError(f"{option} {path}: must not be a file that the command reads; name another one")
        if place in seen and (os.path.isfile(path) or not os.path.exists(path)):
            raise UserError(f"{option} {path}: must not be the file of {seen[place]} too")
        seen[place] = option
    for option, path in folders.items():
        if os.path.exists(path) and not os.path.isdir(path):
            raise UserError(f"{option} {path}: must be a folder, got a file")


def _permissions(target: Path) -> int:
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
