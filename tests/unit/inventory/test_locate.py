"""Where the inventory is looked for."""

from pathlib import Path

import pytest

from gpuguard.inventory import locate
from gpuguard.inventory.locate import find_inventory
from gpuguard.model.errors import UsageError


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "etc" / "inventory.yaml"
    monkeypatch.setattr(locate, "SYSTEM", path)
    return path


def make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_the_order_of_places(tmp_path: Path, system: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path / "home")}
    make(system)
    assert find_inventory(None, environ) == system
    user = make(tmp_path / "xdg" / "gpuguard" / "inventory.yaml")
    assert find_inventory(None, environ) == user
    environ["GPUGUARD_INVENTORY"] = "/named/by/variable"
    assert find_inventory(None, environ) == Path("/named/by/variable")
    assert find_inventory("/named/by/option", environ) == Path("/named/by/option")


def test_without_xdg_the_home_is_used(tmp_path: Path) -> None:
    user = make(tmp_path / "home" / ".config" / "gpuguard" / "inventory.yaml")
    environ = {"HOME": str(tmp_path / "home")}
    assert find_inventory(None, environ) == user
    assert find_inventory(None, {**environ, "XDG_CONFIG_HOME": "relative/is/ignored"}) == user


def test_a_link_to_nowhere_is_not_skipped(tmp_path: Path, system: Path) -> None:
    make(system)
    user = tmp_path / "xdg" / "gpuguard" / "inventory.yaml"
    user.parent.mkdir(parents=True)
    user.symlink_to(tmp_path / "nowhere")
    assert find_inventory(None, {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}) == user


def test_nothing_found_names_the_places_and_the_way_out(tmp_path: Path, system: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_inventory(None, {"XDG_CONFIG_HOME": str(tmp_path / "xdg")})
    assert str(system) in caught.value.message
    assert str(tmp_path / "xdg" / "gpuguard" / "inventory.yaml") in caught.value.message
    assert caught.value.hint == "make one: gpuguard inventory init"
    with pytest.raises(UsageError):
        find_inventory(None, {})
