"""Folders of a store: whose they are, what may be removed, how bytes are copied and hashed."""

import os
from pathlib import Path

import pytest

from gpuguard.agent.store.hashing import copy_folder, hash_files
from gpuguard.agent.store.reading import list_checkpoints
from gpuguard.agent.store.write import claim_job_folder, make_partial, remove_checkpoint
from gpuguard.checkpoint.naming import make_checkpoint_id
from gpuguard.model.errors import GpuguardError, RefusedError, UsageError
from gpuguard.model.manifests import CHUNK_BYTES
from tests.unit.agent.checkpoints import JOB, fill_stage


def test_a_partial_one_is_removed_and_an_unknown_one_named(store: Path) -> None:
    folder = claim_job_folder(str(store), JOB, "uid-1")
    name = make_checkpoint_id()
    partial = make_partial(folder, name)
    remove_checkpoint(str(store), JOB, name)
    assert not partial.exists()
    with pytest.raises(UsageError, match="holds no checkpoint"):
        remove_checkpoint(str(store), JOB, name)


@pytest.mark.parametrize("job", ["..", "a/b", ".x", ""])
def test_a_job_name_cannot_leave_the_store(store: Path, job: str) -> None:
    with pytest.raises(UsageError):
        remove_checkpoint(str(store), job, make_checkpoint_id())


def test_a_folder_of_another_job_of_that_name_is_refused(store: Path) -> None:
    claim_job_folder(str(store), JOB, "uid-1")
    with pytest.raises(RefusedError, match="another job"):
        claim_job_folder(str(store), JOB, "uid-2")


def test_a_store_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(GpuguardError, match="does not exist"):
        claim_job_folder(str(tmp_path / "none"), JOB, "uid-1")
    with pytest.raises(GpuguardError, match="does not exist"):
        list_checkpoints(str(tmp_path / "none"))


def test_large_files_are_hashed_by_chunk(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    data = os.urandom(1024) * 1024 * 17
    (source / "big").write_bytes(data)
    hashed = copy_folder(source, target, lambda size: None)
    assert len(hashed[0].sha256) == 2
    assert (target / "big").read_bytes() == data
    with (target / "big").open("r+b") as file:
        file.seek(CHUNK_BYTES + 5)
        file.write(b"\0" if data[CHUNK_BYTES + 5] else b"\1")
    assert hash_files(target, hashed, lambda size: None) == ["big"]


def test_a_copy_never_writes_over_what_is_there(tmp_path: Path) -> None:
    source, target = fill_stage(tmp_path / "source"), tmp_path / "target"
    (target / "images").mkdir(parents=True)
    (target / "images/pstree.img").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        copy_folder(source, target, lambda size: None)
    assert not (tmp_path / "victim").exists()
