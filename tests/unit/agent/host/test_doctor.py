"""The doctor on a node: every finding that can be provoked without a practice fleet."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuguard.agent.host import checks as host_checks
from gpuguard.agent.host import doctor
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store import folder_checks, marks
from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.plans import Level
from tests.unit.agent.findings import codes

EVERYTHING = "Name:\tpython\nCapEff:\t000001ffffffffff\n"


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
