"""The house itself: its folders, what each module may weigh, what a plain command may load."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("commands", "tui", "inventory")
SOURCES = ("gpuguard", *LINKED)
HEAVY = {"textual", "rich", "paramiko", "pynvml", "pydantic", "ClusterShell"}


def own_modules() -> list[Path]:
    """Every Python file of the four source folders, each once."""
    return sorted(
        path
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents)
    )


def text_files() -> list[Path]:
    """Every file that belongs to the project and holds text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip(f"not a git checkout: {listed.stderr.decode().strip()}")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


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


def test_no_file_names_a_folder_of_one_machine() -> None:
    if len(ROOT.parts) < 3:
        pytest.skip(f"{ROOT} is too short a path to be told from others")
    checkout = re.compile(re.escape(f"{ROOT}/"))
    home = re.compile(r"/(?:home|Users)/\w+/")
    guilty = []
    for path in text_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        name = path.relative_to(ROOT)
        # Tests may make up a person; what is shipped may not.
        patterns = [checkout] if name.parts[0] == "tests" else [checkout, home]
        guilty += [f"{name}: {found}" for pattern in patterns for found in pattern.findall(text)]
    assert guilty == []


def loaded_by(*words: str) -> tuple[int, set[str]]:
    """Run gpuguard with `words`; return its exit code and the top-level modules it loaded."""
    code = (
        "import sys\n"
        "from gpuguard.commands.main import run\n"
        "try:\n"
        f"    run({list(words)!r})\n"
        "except SystemExit as end:\n"
        "    status = end.code\n"
        "roots = sorted({name.split('.')[0] for name in sys.modules})\n"
        "print('loaded:', int(status or 0), *roots)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "loaded:"
    return int(last[1]), set(last[2:])


@pytest.mark.parametrize("line", ["--help", "checkpoint --help", "heartbeat --help"])
def test_help_loads_nothing_heavy(line: str) -> None:
    from gpuguard.commands.table import COMMANDS

    words = line.split()
    if words[0] != "--help" and words[0] not in {row.name for row in COMMANDS}:
        pytest.skip(f"there is no command {words[0]}")
    code, loaded = loaded_by(*words)
    assert code == 0
    assert loaded & HEAVY == set()


def test_version_loads_no_command_line_library() -> None:
    code, loaded = loaded_by("--version")
    assert code == 0
    assert loaded & {*HEAVY, "typer", "click"} == set()


def test_hygiene_test_sees_what_is_loaded() -> None:
    _, loaded = loaded_by("--version")
    assert {"gpuguard", "sys", "signal"} <= loaded
