"""What a built wheel holds, by way of the source distribution, as a user would get it."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "*.egg-info", "build", "dist", "__pycache__", ".*_cache"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both distributions from a copy of the tree; return the folder they lie in."""
    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(ROOT, folder / "tree", symlinks=True, ignore=LEFT_OUT)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", "."],
        cwd=folder / "tree",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder / "dist"


def names(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_package_alone(built: Path) -> None:
    roots = {name.split("/")[0] for name in names(built)}
    (info,) = {root for root in roots if root.endswith(".dist-info")}
    assert roots == {"gpuguard", info}


def test_wheel_holds_every_file_of_the_package(built: Path) -> None:
    data = {".yaml", ".json", ".tcss", ".sh", ".py", ".typed"}
    expected = {
        str(path.relative_to(ROOT))
        for folder in (ROOT / "gpuguard").iterdir()
        for path in ([folder] if folder.is_file() else folder.resolve().rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {
        f"gpuguard/{name}" if not name.startswith("gpuguard/") else name
        for name in expected
        if Path(name).suffix in data or "/workloads/" in name
    }
    assert "gpuguard/py.typed" in inside
    assert inside - names(built) == set()


def test_source_distribution_holds_the_tests_and_no_links(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = archive.getmembers()
    assert not any(member.issym() or member.islnk() for member in members)
    inside = {member.name.split("/", 1)[-1] for member in members}
    assert {
        "CHANGELOG.md",
        "README.md",
        "LICENSE",
        "Makefile",
        "tests/unit/test_house.py",
    } <= inside
