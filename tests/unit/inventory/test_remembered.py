"""What an inventory came to is remembered for the very same bytes, user and program alone."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuguard.inventory import remembered
from gpuguard.inventory.load import load_inventory
from gpuguard.inventory.remembered import recall_inventory
from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Inventory

TEXT = """version: 1
stores: {shared: {path: /srv/gpuguard}}
policies: {default: {store: shared}}
hosts:
  gpu[01-03]: {power: {status: [ipmi, "{host}"]}, identity_files: ["~/.ssh/fleet"]}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "inventory.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were loaded anew."""
    seen: list[Path] = []

    def note(path: Path, load: Callable[[Path], Inventory] = load_inventory) -> Inventory:
        seen.append(path)
        return load(path)

    monkeypatch.setattr(remembered, "load_inventory", note)
    return seen


def test_the_second_time_nothing_is_loaded(path: Path, loads: list[Path], tmp_path: Path) -> None:
    first = recall_inventory(path, tmp_path / "cache")
    second = recall_inventory(path, tmp_path / "cache")
    assert first == second == load_inventory(path)
    assert list(second.hosts) == ["gpu01", "gpu02", "gpu03"]
    assert loads == [path]


def test_a_changed_file_is_loaded_anew(path: Path, loads: list[Path], tmp_path: Path) -> None:
    recall_inventory(path, tmp_path / "cache")
    path.write_text(TEXT.replace("gpu[01-03]", "gpu[01-04]"))
    assert len(recall_inventory(path, tmp_path / "cache").hosts) == 4
    path.write_text(TEXT + "hots: {}\n")
    with pytest.raises(UsageError, match="hots"):
        recall_inventory(path, tmp_path / "cache")
    assert len(loads) == 3


def test_another_home_is_another_inventory(
    path: Path, loads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for home in ("/home/ada", "/home/bob", "/home/bob"):
        monkeypatch.setenv("HOME", home)
        found = recall_inventory(path, tmp_path / "cache")
        assert found.hosts["gpu01"].identity_files == (f"{home}/.ssh/fleet",)
    assert len(loads) == 2


def test_other_code_loads_anew(
    path: Path, loads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall_inventory(path, tmp_path / "cache")
    monkeypatch.setattr("gpuguard.__version__", "9.9")
    recall_inventory(path, tmp_path / "cache")
    assert len(loads) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "writable", "list"])
def test_what_cannot_be_trusted_is_not_taken(
    path: Path, loads: list[Path], tmp_path: Path, damage: str
) -> None:
    right = recall_inventory(path, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    text = kept.read_text()
    if damage == "writable":
        kept.write_text(text.replace("gpu01", "evil"))
        kept.chmod(0o666)
    else:
        damaged = {"cut": text[:-9], "empty": "", "list": "[]", "other": json.dumps({"key": 1})}
        kept.write_text(damaged[damage])
    assert recall_inventory(path, tmp_path / "cache") == right
    assert len(loads) == 2


def test_it_is_kept_for_its_owner_alone(path: Path, tmp_path: Path) -> None:
    recall_inventory(path, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_costs_time_only(
    path: Path, loads: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    assert recall_inventory(path, tmp_path / "cache") == recall_inventory(path, tmp_path / "cache")
    assert len(loads) == 2
