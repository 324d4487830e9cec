"""The house itself: its folders, and what each module may weigh."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("commands", "tui", "inventory")
SOURCES = ("gpuguard", *LINKED)


def own_modules() -> list[Path]:
    """Every Python file of the four source folders, each once."""
    return sorted(
        path
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents)
    )


@pytest.mark.parametrize("name", LINKED)
def test_package_reaches_its_top_folders_through_links(name: str) -> None:
    if not (ROOT / name).is_dir():
        pytest.skip("an unpacked source distribution holds plain folders")
    link = ROOT / "gpuguard" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


def test_top_folder_is_no_package() -> None:
    assert not (ROOT / "__init__.py").exists()


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in own_modules()}
    assert lengths, "no module was found"
    assert {str(p): n for p, n in lengths.items() if n > 400} == {}


def test_imports_are_absolute_and_name_the_package() -> None:
    wrong = re.compile(r"^\s*(from \.|(from|import) (commands|tui|inventory)\b)", re.MULTILINE)
    assert [str(path) for path in own_modules() if wrong.search(path.read_text())] == []
