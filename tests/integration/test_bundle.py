"""The code that travels to a node: it needs nothing but an old Python's standard library."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The last one is the text that starts the agent: it runs on the node before anything is there.
ROOMS = ("model", "health", "checkpoint", "agent", "remote/node_start.py")
# Every module of the rooms, found on disk: one that nobody imports must load as well.
IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root))
count = 0
for room in sys.argv[2:]:
    place = root / "gpuguard" / room
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        if parts[-1] == "__main__" or parts[-2:] == ["agent", "nvml"]:
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        importlib.import_module(name)
        count += 1
print(count, sorted(name for name in sys.modules if "site-packages" in str(
    getattr(sys.modules[name], "__file__", ""))))
"""


def old_python() -> str | None:
    """Return a Python 3.9 that really starts, from the PATH or a version manager's folders."""
    candidates = [shutil.which("python3.9")]
    for manager in (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv"):
        if manager and os.access(manager, os.R_OK | os.X_OK):
            candidates += map(str, sorted(Path(manager).glob("versions/3.9*/bin/python3.9")))
    return next((python for python in candidates if python and is_python_3_9(python)), None)


def is_python_3_9(python: str) -> bool:
    code = "import sys; sys.exit(sys.version_info[:2] != (3, 9))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, check=False)
    except OSError:  # another user's, or a broken link
        return False
    return done.returncode == 0


def import_all(python: str) -> str:
    done = subprocess.run(
        [python, "-I", "-S", "-B", "-W", "error", "-c", IMPORT_ALL, str(ROOT), *ROOMS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bundle_needs_the_standard_library_alone() -> None:
    count, _, foreign = import_all(sys.executable).strip().partition(" ")
    assert int(count) > len(ROOMS)
    assert foreign == "[]"


def test_bundle_loads_under_python_3_9() -> None:
    python = old_python()
    if python is None:
        pytest.skip("no Python 3.9 on this machine")
    assert int(import_all(python).split()[0]) > len(ROOMS)
