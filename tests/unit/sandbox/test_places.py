"""Folders and names of a sandbox, and the record of what it consists of."""

from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.sandbox.places import cache_root, sandbox_folder, state_root
from gpuguard.sandbox.recipe import CriuKind, Recipe
from gpuguard.sandbox.record import HostRecord, SandboxRecord, load_record, save_record


def test_xdg_folders_win_over_the_defaults() -> None:
    assert state_root({"XDG_STATE_HOME": "/s"}) == Path("/s/gpuguard/sandbox")
    assert cache_root({"XDG_CACHE_HOME": "/c"}) == Path("/c/gpuguard/sandbox")


@pytest.mark.parametrize("name", ["", "-a", "../x", "A", "a/b", "a" * 33, "a,b"])
def test_a_name_that_could_leave_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a sandbox"):
        sandbox_folder(name, tmp_path)


def test_a_folder_the_overlay_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="comma"):
        sandbox_folder("a", tmp_path / "x,y")


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    hosts = (HostRecord("node1", 1, CriuKind.OLD, "/base"),)
    record = SandboxRecord("a", 7, hosts)
    save_record(tmp_path / "r.json", record)
    assert load_record(tmp_path / "r.json") == record
    assert (record.network, record.address(hosts[0])) == ("198.18.7.0/24", "198.18.7.11")
    assert (record.bridge, record.link(hosts[0])) == ("gg7", "gg7h1")
    assert record.mac(1) != record.mac(0)


def test_link_names_fit_the_kernel_for_the_largest_sandbox() -> None:
    host = HostRecord("node200", 200, CriuKind.CURRENT, "/base")
    assert len(SandboxRecord("a", 255, (host,)).link(host)) <= 15


def test_a_damaged_record_says_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"name": "a"}')
    with pytest.raises(GpuguardError, match=r"r\.json: not a sandbox's record"):
        load_record(tmp_path / "r.json")
    assert load_record(tmp_path / "none.json") is None


def test_a_base_is_known_by_all_that_makes_it() -> None:
    recipe = Recipe()
    names = {recipe.digest(), recipe.digest(CriuKind.OLD), recipe.digest(CriuKind.CURRENT)}
    assert len(names) == 3
    assert Recipe(sshd="Port 22\n").digest() not in names
    assert Recipe().digest() == recipe.digest()
