"""The checkout: what its files name, its scripts, its Makefile."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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


def test_shell_scripts_parse() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    shell = [path for path in [*scripts, ROOT / ".ci/run"] if is_bash(path)]
    assert len(shell) >= 4
    for path in shell:
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert os.access(path, os.X_OK), f"{path} cannot be run"


def is_bash(path: Path) -> bool:
    return path.read_text(errors="replace").startswith("#!/bin/bash")


def test_make_alone_prints_what_it_can_do() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert {"setup", "unit", "test", "lint", "demo", "bench", "snapshots", "clean"} <= listed
