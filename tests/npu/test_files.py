"""Writing all of a file or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npu.errors import UserError
from npu.files import write_atomically


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
