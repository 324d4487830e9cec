"""What runs first on a node, in real child processes."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuguard.model.errors import UnreachableError
from gpuguard.remote import node_start
from gpuguard.remote.archive import Bundle
from gpuguard.remote.bootstrap import greet, start_argv, start_command
from gpuguard.remote.client import AgentSession, Patience
from gpuguard.remote.local import ChildLink
from tests.integration.remote.agents import local_host, stand_in_bundle

DAY = 86400


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return stand_in_bundle(tmp_path)


def start(bundle: Bundle, argv: list[str] | None = None) -> AgentSession:
    link = ChildLink(argv or start_argv(bundle, False, sys.executable))
    return greet(local_host(), "ops", link, bundle, Patience())


def ask(bundle: Bundle, argv: list[str] | None = None) -> None:
    session = start(bundle, argv)
    assert session.call("echo", a=1) == {"a": 1}
    session.close()


def test_shell_sees_constants_and_a_hash_alone(bundle: Bundle) -> None:
    words = start_command(bundle, True).replace(bundle.sha256, "HASH")
    assert words.startswith("sudo -n -- python3 -IS -c '") and words.endswith("' HASH")


def test_agent_is_sent_once(bundle: Bundle, node_root: Path) -> None:
    ask(bundle)
    home = node_root / "agent" / bundle.sha256
    before = home.stat().st_ino
    assert [path.name for path in (node_root / "agent").iterdir()] == [bundle.sha256]
    ask(bundle)
    assert home.stat().st_ino == before
    assert list(home.rglob("*.pyc"))
    assert {path.stat().st_mode & 0o077 for path in (node_root, node_root / "agent", home)} == {0}


def test_half_written_folder_is_replaced(bundle: Bundle, node_root: Path) -> None:
    home = node_root / "agent" / bundle.sha256
    (home / "gpuguard").mkdir(parents=True, mode=0o700)
    for folder in (home, home.parent, node_root):
        folder.chmod(0o700)
    ask(bundle)
    assert (home / node_start.MARKER).exists()


def test_damaged_archive_is_not_unpacked(bundle: Bundle, node_root: Path) -> None:
    class Damaged(Bundle):
        @property
        def sha256(self) -> str:
            return "0" * 64

    with pytest.raises(UnreachableError, match="does not have the announced hash"):
        start(Damaged(bundle.tar))
    assert list((node_root / "agent").iterdir()) == []


def test_folder_others_may_write_to_is_refused(bundle: Bundle, node_root: Path) -> None:
    ask(bundle)
    (node_root / "agent").chmod(0o777)
    with pytest.raises(UnreachableError, match="others than its user may write") as caught:
        start(bundle)
    assert "chmod 700" in (caught.value.hint or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a full disk needs root")
@pytest.mark.parametrize(
    ("options", "reason", "words"),
    [
        ("size=64k,mode=700", "disk-full", "No space left"),
        ("ro,mode=700", "read-only", "Read-only file system"),
    ],
)
def test_full_and_read_only_disks(
    bundle: Bundle, node_root: Path, options: str, reason: str, words: str
) -> None:
    node_root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "gpuguard-test", str(node_root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount here")
    try:
        if reason == "disk-full":
            (node_root / "fill").write_bytes(b"0" * 52 * 1024)
        with pytest.raises(UnreachableError, match=words) as caught:
            start(bundle)
        assert caught.value.details["reason"] == reason
        assert not list(node_root.glob("agent/*"))
    finally:
        subprocess.run(["umount", "-l", node_root], check=True)


def script(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "tool"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "echo 'sudo: a password is required' >&2; exit 1",
            "user ops may not become root without a password: sudo: a password is required",
        ),
        (
            "echo 'ops is not in the sudoers file.' >&2; echo 'sudo: no' >&2; exit 1",
            "may not become",
        ),
        ("echo 'sudo: python3: command not found' >&2; exit 1", "there is no python3"),
        ("echo 'sh: 1: python3: not found' >&2; exit 127", "there is no python3"),
        ("echo 'This account is locked'; exit 1", "This account is locked"),
        ('sleep 0.2; echo \'{"hello": {"protocol": 1}}\'', "hello cannot be read"),
    ],
)
def test_each_failure_of_the_start_has_its_sentence(
    bundle: Bundle, tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(UnreachableError, match=words):
        start(bundle, script(tmp_path, text))


def python(version: str) -> str:
    kept = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    found = next(map(str, kept), None) or shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"no Python {version} here")
    return found


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_other_pythons(bundle: Bundle, version: str) -> None:
    ask(bundle, start_argv(bundle, False, python(version)))


@pytest.mark.parametrize("version", ["3.6", "3.8"])
def test_old_python_is_refused_or_passes_on_to_a_newer_one(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    old = python(version)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnreachableError, match=rf"Python {version}\.\d+ is too old"):
        start(bundle, start_argv(bundle, False, old))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3.11").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    ask(bundle, start_argv(bundle, False, old))


def make_old(node_root: Path, name: str, age: float) -> Path:
    folder = node_root / "agent" / name
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / node_start.MARKER
    marker.touch()
    os.utime(marker, (time.time() - age, time.time() - age))
    return folder


def test_agents_unused_for_a_day_go_and_no_others(bundle: Bundle, node_root: Path) -> None:
    old = make_old(node_root, "a" * 64, 2 * DAY)
    young = make_old(node_root, "b" * 64, DAY / 2)
    used = make_old(node_root, "c" * 64, 2 * DAY)
    foreign = make_old(node_root, "notes", 9 * DAY)
    for folder in (node_root, node_root / "agent"):
        folder.chmod(0o700)
    user = subprocess.Popen([sys.executable, "-c", "input()", "c" * 64], stdin=subprocess.PIPE)
    try:
        ask(bundle)
    finally:
        user.communicate(b"\n")
    assert not old.exists()
    assert young.exists() and used.exists() and foreign.exists()


def test_no_agent_goes_while_a_procedure_is_open(bundle: Bundle, node_root: Path) -> None:
    old = make_old(node_root, "a" * 64, 2 * DAY)
    (node_root / "procedures" / "p1").mkdir(parents=True)
    for folder in (node_root, node_root / "agent"):
        folder.chmod(0o700)
    ask(bundle)
    assert old.exists()


@pytest.mark.parametrize("broken", [False, True])
def test_first_contacts_at_once(bundle: Bundle, node_root: Path, broken: bool) -> None:
    if broken:
        (node_root / "agent" / bundle.sha256 / "gpuguard").mkdir(parents=True)
        for folder in (node_root, node_root / "agent", node_root / "agent" / bundle.sha256):
            folder.chmod(0o700)
    argv = start_argv(bundle, False, sys.executable)
    links = [ChildLink(argv) for _ in range(4)]
    sessions = [greet(local_host(), "ops", link, bundle, Patience()) for link in links]
    for session in sessions:
        assert session.call("echo") == {}
        session.close()
    left = sorted(path.name for path in (node_root / "agent").iterdir())
    assert left[0] == bundle.sha256
    assert [name.split("-")[0] for name in left[1:]] == [f"{bundle.sha256}.broken"] * broken


def test_agent_may_take_its_time_once_it_starts(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuguard.remote.bootstrap._START_AT_LEAST", 0.5)
    hello = '{"hello": {"protocol": 2, "version": "9", "host": "h", "boot_id": "b", "python": "3", '
    hello += '"pid": 1, "uid": 0}}'
    slow = f'echo \'{{"boot": {{"starting": "x"}}}}\'; sleep 1.5; echo \'{hello}\'; sleep 1'
    link = ChildLink(script(tmp_path, slow))
    with pytest.raises(UnreachableError, match="it speaks protocol 2, not 1"):
        greet(local_host(timeout=0.5), "ops", link, bundle, Patience())


def test_words_that_come_in_one_piece(bundle: Bundle, tmp_path: Path) -> None:
    hello = '{"hello": {"protocol": 1, "version": "9", "host": "h", "boot_id": "b", "python": "3", '
    hello += '"pid": 1, "uid": 0}}'
    once = tmp_path / "words"
    once.write_text(f'Welcome\n{{"boot": {{"starting": "x"}}}}\n{hello}\n')
    link = ChildLink(script(tmp_path, f"cat {once}; sleep 5"))
    session = greet(local_host(), "ops", link, bundle, Patience())
    assert session.hello.version == "9"
    session.close()
