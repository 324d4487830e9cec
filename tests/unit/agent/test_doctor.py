"""The doctor on a node: every finding that can be provoked without a practice fleet."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuguard.agent.bounded import run_bounded
from gpuguard.agent.criu import checks as criu_checks
from gpuguard.agent.host import checks as host_checks
from gpuguard.agent.host import doctor
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store import folder_checks, marks
from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.plans import Finding, Level

EVERYTHING = "Name:\tpython\nCapEff:\t000001ffffffffff\n"


def codes(found: list[Finding]) -> set[tuple[str, str]]:
    return {(item.level.value, item.code) for item in found}


def test_rights_are_read_from_the_capabilities_in_force() -> None:
    assert codes(host_checks.check_rights(EVERYTHING)) == {("ok", "rights")}
    without_resource = f"CapEff:\t{0x1FFFFFFFFFF & ~(1 << 24):016x}\n"
    assert codes(host_checks.check_rights(without_resource)) == {("warning", "rights-partial")}
    container = f"CapEff:\t{0xA80425FB:016x}\n"  # what a container's root holds by default
    (found,) = host_checks.check_rights(container)
    assert found.level is Level.ERROR
    assert found.remedy


def test_rights_of_a_plain_login_name_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (found,) = host_checks.check_rights("CapEff:\t0000000000000000\n")
    assert "uid 1000" in found.text
    assert "sudo" in str(found.remedy)


def test_missing_tools_name_their_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = host_checks.check_tools()
    assert ("error", "tool-missing") in codes(found)
    assert ("warning", "tool-missing") in codes(found)
    assert any(item.remedy == "apt-get install openssh-client" for item in found)


def test_kernel_without_checkpoint_support_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "self/ns").mkdir(parents=True)
    (found,) = host_checks.check_kernel(tmp_path)
    assert found.level is Level.ERROR
    assert "CONFIG_CHECKPOINT_RESTORE" in found.text


def criu(tmp_path: Path, body: str) -> None:
    tool = tmp_path / "criu"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)


@pytest.mark.parametrize(
    ("kernel", "body", "expected"),
    [
        ("6.18.44", 'echo "Version: 4.2.1"', ("ok", "criu")),
        ("6.18.44", 'echo "Version: 4.1.1"', ("error", "criu-too-old")),
        ("6.12.9", 'echo "Version: 4.1.1"', ("ok", "criu")),
        ("6.12.9", 'echo "Version: 3.17.1"', ("error", "criu-too-old")),
        ("6.18.44", "echo garbage", ("error", "criu-broken")),
        (
            "6.18.44",
            'if [ "$1" = check ]; then echo "Error: no" >&2; exit 1; fi; echo "Version: 4.2"',
            ("error", "criu-check"),
        ),
    ],
)
def test_criu(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kernel: str,
    body: str,
    expected: tuple[str, str],
) -> None:
    criu(tmp_path, body)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("platform.release", lambda: kernel)
    assert codes(criu_checks.check_criu()) == {expected}


def test_criu_that_is_missing_or_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert codes(criu_checks.check_criu()) == {("error", "criu-missing")}
    criu(tmp_path, 'if [ "$1" = check ]; then exec /bin/sleep 30; fi; echo "Version: 4.2"')
    monkeypatch.setattr(criu_checks, "_SECONDS", 0.3)
    (found,) = criu_checks.check_criu()
    assert found.code == "criu-check"
    assert "hangs" in found.text


def test_good_folders_are_left_as_they_were(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    (found,) = folder_checks.check_folder("store", store)
    assert found.code in ("store", "store-room")
    (found,) = folder_checks.check_folder("stage", tmp_path / "not/there/yet")
    assert found.code in ("stage", "stage-room")
    assert list(store.iterdir()) == []
    assert list(tmp_path.iterdir()) == [store]


def test_missing_store_and_file_in_its_place(tmp_path: Path) -> None:
    assert codes(folder_checks.check_folder("store", tmp_path / "gone")) == {
        ("error", "store-missing")
    }
    (tmp_path / "file").touch()
    (found,) = folder_checks.check_folder("store", tmp_path / "file")
    assert found.code == "store-unfit"


def test_folder_that_others_may_write_into(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert ("warning", "store-open") in codes(folder_checks.try_folder("store", tmp_path))


def refuse(number: int) -> Callable[..., None]:
    def step(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return step


@pytest.mark.parametrize(
    ("call", "number", "doing"),
    [
        ("fsync", errno.EIO, "write a file in"),
        ("link", errno.EPERM, "make a hard link in"),
        ("link", errno.ENOSPC, "make a hard link in"),
    ],
)
def test_what_a_file_system_refuses_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, number: int, doing: str
) -> None:
    monkeypatch.setattr(os, call, refuse(number))
    (found,) = folder_checks.try_folder("store", tmp_path)
    assert found.code == "store-unfit"
    assert doing in found.text
    assert os.strerror(number) in found.text
    assert found.remedy
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_second_link_that_is_not_refused_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "link", lambda source, target: Path(target).write_bytes(b""))
    (found,) = folder_checks.try_folder("store", tmp_path)
    assert "second link" in found.text


def test_hanging_store_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folder_checks, "_CHILD", "import time; time.sleep(30)")
    (found,) = folder_checks.check_folder("store", tmp_path, seconds=0.3)
    assert found.code == "store-hangs"


def test_child_that_dies_is_not_taken_for_a_good_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(folder_checks, "_CHILD", "raise SystemExit('no such thing')")
    (found,) = folder_checks.check_folder("store", tmp_path)
    assert found.level is Level.ERROR
    assert "no such thing" in found.text


def test_agent_folder_and_key(tmp_path: Path) -> None:
    paths = NodePaths(tmp_path / "node")
    paths.prepare()
    assert codes(doctor.check_private(paths)) == {("ok", "agent-folder")}
    assert codes(doctor.check_key(paths)) == {("info", "signing-key")}
    paths.agent.chmod(0o755)
    (found,) = doctor.check_private(paths)
    assert found.level is Level.ERROR
    assert str(paths.agent) in found.text


def test_half_or_open_signing_key(tmp_path: Path) -> None:
    paths = NodePaths(tmp_path)
    paths.prepare()
    key = paths.keys / "manifest_ed25519"
    key.write_text("secret")
    key.chmod(0o600)
    assert codes(doctor.check_key(paths)) == {("error", "signing-key")}
    key.with_suffix(".pub").write_text("ssh-ed25519 AAAA")
    assert codes(doctor.check_key(paths)) == {("ok", "signing-key")}
    key.chmod(0o644)
    assert codes(doctor.check_key(paths)) == {("error", "signing-key")}
    assert stat.S_IMODE(key.stat().st_mode) == 0o644


def test_diagnosis_without_a_store_is_an_error(tmp_path: Path) -> None:
    found = doctor.diagnose(NodePaths(tmp_path), tmp_path / "stage", None)
    assert ("error", "store-none") in codes(found)
    seen = {item.code.split("-")[0] for item in found}
    assert {"python", "rights", "kernel", "criu", "agent", "signing", "stage"} <= seen
    assert all(item.remedy for item in found if item.level is Level.ERROR)


def test_marks_show_whether_a_store_is_shared(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert marks.mark_store(tmp_path, "0123abcd", "leave")
    assert marks.mark_store(tmp_path, "0123abcd", "see")
    assert not marks.mark_store(other, "0123abcd", "see")
    assert not marks.mark_store(tmp_path, "0123abcd", "remove")
    assert list(tmp_path.iterdir()) == [other]


def test_marks_refuse_names_that_leave_the_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        marks.mark_store(tmp_path, "../../etc/x", "leave")
    with pytest.raises(UsageError):
        marks.mark_store(tmp_path, "0123abcd", "burn")
    with pytest.raises(GpuguardError, match="No such file"):
        marks.mark_store(tmp_path / "gone", "0123abcd", "leave")


def test_bounded_child_tells_its_code_and_its_last_line() -> None:
    done = run_bounded(("/bin/sh", "-c", "echo one; echo two >&2; exit 3"), 10)
    assert (done.code, done.text) == (3, "two")
    assert run_bounded(("/bin/sleep", "30"), 0.2).code is None
