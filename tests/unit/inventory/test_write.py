"""Writing: never over another file by mistake, never through a link, readable by the owner."""

import stat
from pathlib import Path

import pytest

from gpuguard.inventory.write import write_file
from gpuguard.model.errors import GpuguardError, RefusedError


def test_a_new_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "i.yaml"
    write_file(path, "text\n")
    assert path.read_text() == "text\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["i.yaml"]


def test_an_existing_file_stays_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text("old")
    with pytest.raises(RefusedError) as caught:
        write_file(path, "new")
    assert caught.value.hint == "add --force to replace it"
    assert path.read_text() == "old"
    write_file(path, "new", force=True)
    assert path.read_text() == "new"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    link = tmp_path / "i.yaml"
    link.symlink_to(target)
    with pytest.raises(RefusedError):
        write_file(link, "new")
    write_file(link, "new", force=True)
    assert target.read_text() == "precious"
    assert not link.is_symlink()


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GpuguardError, match="cannot be written"):
        write_file(tmp_path / "file" / "i.yaml", "text")
