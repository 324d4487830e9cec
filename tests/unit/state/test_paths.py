"""Where files are kept, for root and for others."""

from pathlib import Path

import pytest

from gpuguard.state.paths import find_paths


def test_root_uses_the_system_folders() -> None:
    paths = find_paths({"HOME": "/root"}, uid=0)
    assert paths.config == Path("/etc/gpuguard")
    assert paths.operations == Path("/var/lib/gpuguard/operations.sqlite3")
    assert paths.runtime == Path("/run/gpuguard")


def test_others_use_their_home() -> None:
    paths = find_paths({"HOME": "/home/ada"}, uid=1000)
    assert paths.config == Path("/home/ada/.config/gpuguard")
    assert paths.state == Path("/home/ada/.local/state/gpuguard")
    assert paths.cache == Path("/home/ada/.cache/gpuguard")


@pytest.mark.parametrize("uid", [0, 1000])
def test_xdg_variables_win_for_everyone(uid: int) -> None:
    paths = find_paths({"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, uid=uid)
    assert (paths.state, paths.config) == (Path("/s/gpuguard"), Path("/c/gpuguard"))


def test_a_relative_xdg_variable_is_ignored() -> None:
    assert find_paths({"HOME": "/h", "XDG_STATE_HOME": "s"}, uid=0).state == Path(
        "/var/lib/gpuguard"
    )
