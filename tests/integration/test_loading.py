"""What a plain command may load."""

import subprocess
import sys

import pytest

HEAVY = {"textual", "rich", "paramiko", "pynvml", "pydantic", "ClusterShell", "yaml"}


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


@pytest.mark.parametrize(
    "line", ["--help", "-h", "checkpoint --help", "jobs run --help", "heartbeat --help"]
)
def test_help_loads_nothing_heavy(line: str) -> None:
    from gpuguard.commands.table import COMMANDS

    words = line.split()
    if not words[0].startswith("-") and words[0] not in {row.name for row in COMMANDS}:
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


def test_importing_the_loader_does_not_import_pydantic() -> None:
    code = (
        "import sys, gpuguard.inventory.load, gpuguard.inventory.locate, gpuguard.inventory.select,"
        "gpuguard.commands.inventory, gpuguard.commands.config\n"
        "print(sorted({'pydantic', 'ClusterShell', 'yaml', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
