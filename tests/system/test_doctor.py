"""doctor against real hosts that really lack what it looks for."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
STORE = "/srv/gpuguard"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("doctor", hosts=3, old_criu=True, root=tmp_path_factory.mktemp("doctor"))
    yield made
    made.down()


def doctor(sandbox: Sandbox, *words: str) -> tuple[int, dict[str, Any]]:
    """Run the real command; return its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuguard", "doctor", *words, "-o", "json"],
        env={**os.environ, "GPUGUARD_INVENTORY": str(sandbox.inventory)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def errors(sandbox: Sandbox, *words: str) -> set[tuple[str, str]]:
    code, printed = doctor(sandbox, *words)
    found = {(i["subject"], i["code"]) for i in printed["items"] if i["level"] == "error"}
    assert code == (1 if found else 0)
    assert all(i["remedy"] for i in printed["items"] if i["level"] == "error")
    return found


def test_old_criu_is_the_only_error_of_a_fresh_fleet(sandbox: Sandbox) -> None:
    assert errors(sandbox) == {("node3", "criu-too-old")}
    assert errors(sandbox, "node[1-2]") == set()
    assert not [path for path in sandbox.folder.store.iterdir() if "gpuguard-" in path.name]


def test_store_that_is_a_folder_of_its_own(sandbox: Sandbox) -> None:
    sandbox.run("node2", ["mount", "-t", "tmpfs", "none", STORE])
    try:
        assert ("node2", "store-not-shared") in errors(sandbox, "node[1-2]")
        sandbox.run("node2", ["mount", "-o", "remount,ro", STORE])
        assert errors(sandbox, "node[1-2]") == {("node2", "store-unfit")}
    finally:
        sandbox.run("node2", ["umount", STORE])


def test_full_stage(sandbox: Sandbox) -> None:
    stage = "/var/lib/gpuguard/stage"
    sandbox.run("node1", ["mkdir", "-p", stage])
    sandbox.run("node1", ["mount", "-t", "tmpfs", "-o", "size=8k", "none", stage])
    try:
        assert errors(sandbox, "node1") == {("node1", "stage-unfit")}
    finally:
        sandbox.run("node1", ["umount", stage])


@pytest.mark.parametrize(
    ("tool", "code"),
    [("/usr/sbin/criu", "criu-missing"), ("/usr/bin/ssh-keygen", "tool-missing")],
)
def test_missing_program(sandbox: Sandbox, tool: str, code: str) -> None:
    sandbox.run("node1", ["mv", tool, f"{tool}.away"])
    try:
        assert errors(sandbox, "node1") == {("node1", code)}
    finally:
        sandbox.run("node1", ["mv", f"{tool}.away", tool])


def test_keys_that_others_can_read(sandbox: Sandbox) -> None:
    keys = "/var/lib/gpuguard/keys"
    sandbox.run("node1", ["mkdir", "-p", keys])
    sandbox.run("node1", ["chmod", "0755", keys])
    try:
        assert errors(sandbox, "node1") == {("node1", "agent-folder")}
    finally:
        sandbox.run("node1", ["chmod", "0700", keys])


def test_host_without_power_is_partial_and_all_of_them_unreachable(sandbox: Sandbox) -> None:
    sandbox.power("node2", "off")
    try:
        code, printed = doctor(sandbox, "node[1-2]")
        assert code == 3
        assert [error["host"] for error in printed["errors"]] == ["node2"]
        assert {item["subject"] for item in printed["items"]} == {"node1"}
        assert doctor(sandbox, "node2")[0] == 4
    finally:
        sandbox.power("node2", "on")


def test_unknown_host_is_a_usage_error(sandbox: Sandbox) -> None:
    code, printed = doctor(sandbox, "node7")
    assert code == 2
    assert "node7" in printed["error"]["message"]


def test_doctor_works_from_a_folder_elsewhere(sandbox: Sandbox, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuguard", "doctor", "node1", "-i", str(sandbox.inventory)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ok  node1: nothing stands in the way" in done.stdout
