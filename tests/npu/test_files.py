"""Writing all of a file or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npu import files
from npu.errors import ModelError, UserError
from npu.files import check_outputs, load_arrays, read_text, write_atomically
from npu.toolchain.sources import load_compiled


def test_a_new_file_holds_the_data_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.bin", b"data")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.bin", b"data")]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "a.bin", b"data")
    assert (tmp_path / "a.bin").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_existing_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link_to_the_new_contents(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(UserError, match=r"a\.bin: must be writable, got No space left on device"):
        write_atomically(path, b"new")
    assert [(item.name, item.read_bytes()) for item in tmp_path.iterdir()] == [("a.bin", b"old")]


def test_a_device_is_written_and_not_replaced() -> None:
    write_atomically("/dev/null", b"data")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("where", ["missing/a.bin", "."])
def test_a_place_that_cannot_hold_a_file_is_the_users_error(where: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must be writable"):
        write_atomically(tmp_path / where, b"data")


def test_a_pipe_behind_a_link_is_written(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    write_atomically(f"/dev/fd/{theirs}", b"data")
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        assert file.read() == b"data"


def test_outputs_may_be_new_files_old_files_and_devices(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    files = {"--a": tmp_path / "new", "--b": tmp_path / "old", "--c": Path("/dev/null"), "--d": Path("/dev/null")}
    check_outputs(files, {"--e": tmp_path, "--f": tmp_path / "made" / "later"})


def test_one_file_for_two_outputs_is_refused_also_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    with pytest.raises(UserError, match=r"--b .*link: must not be the file of --a too"):
        check_outputs({"--a": tmp_path / "old", "--b": tmp_path / "link"}, {})


def test_an_output_in_place_of_an_input_is_refused_also_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    with pytest.raises(UserError, match=r"--output .*link: must not be a file that the command reads"):
        check_outputs({"--output": tmp_path / "link"}, {}, [tmp_path / "model"])
    check_outputs({"--output": tmp_path / "new"}, {}, [tmp_path / "new"])


def test_bytes_that_are_no_text_are_told_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc\xff")
    with pytest.raises(ValueError, match="bytes that are no UTF-8 text, the first at 3"):
        read_text(tmp_path / "file")


def test_a_file_that_never_ends_is_not_read_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="more than 1 MiB"):
        read_text(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not begin as those of numpy do"),
        (b"\x80\x04K\x01.", "does not begin as those of numpy do"),
        (b"PK\x03\x04", "a broken zip archive"),
        (b"\x93NUMPY\x01\x00", "array header"),
    ],
    ids=("empty", "pickle", "zip", "numpy"),
)
def test_what_is_no_array_is_a_value_error(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        load_arrays(tmp_path / "a.npy")


def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_a_value_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npu.files.MOST_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(1 << 21, np.uint8))
    np.savez(tmp_path / "b.npz", a=np.zeros(1 << 21, np.uint8))
    with pytest.raises(ValueError, match="arrays of 2 MiB packed into 2 KiB; the limit is 1 MiB"):
        load_arrays(tmp_path / "a.npz")
    assert load_arrays(tmp_path / "b.npz")["a"].size == 1 << 21


def test_an_archive_of_a_later_zip_version_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, cmd_data=np.zeros(4, np.uint8))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 159  # the version that its directory asks for: 15.9
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a broken zip archive"):
        load_arrays(path)
    with pytest.raises(ModelError, match=r"a\.npz: must be a readable \.npz archive, got: zip file version 15\.9"):
        load_compiled(path)


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    code = (
        "import os, signal, sys; from npu.files import write_atomically\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], b'new')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


def test_a_name_that_no_file_can_have_is_an_error() -> None:
    with pytest.raises(UserError, match="must be writable, got embedded null byte"):
        write_atomically("a\0b", b"data")


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes(b"\xef\xbb\xbfzero\r\n")
    assert read_text(path) == "zero\r\n"
