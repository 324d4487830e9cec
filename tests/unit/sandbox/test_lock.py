"""The lock outlives its holder as long as a tool of the holder runs."""

from pathlib import Path

import pytest

from gpuguard.model.errors import BusyError
from gpuguard.sandbox.lock import held_descriptors, locked


def test_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        with pytest.raises(BusyError, match="another command"), locked(tmp_path / "lock", False):
            pass
        assert len(held_descriptors()) == 1
    with locked(tmp_path / "lock", wait=False):
        pass
    assert held_descriptors() == ()


def test_a_lock_file_deleted_by_its_holder_guards_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path):
        path.unlink()
        with locked(path, wait=False):
            assert path.exists()
