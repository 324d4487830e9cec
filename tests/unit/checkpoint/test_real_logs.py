"""Logs of real CRIU runs, old and new, each with the cause that is known from how it was made."""

from pathlib import Path

import pytest

from gpuguard.checkpoint.diagnosis import Diagnosis, diagnose

LOGS = Path(__file__).resolve().parents[2] / "data" / "criu_logs"
CAUSES = {
    "chroot": "job_in_a_chroot",
    "cwd-missing": "working_directory_missing",
    "deleted-file": "ghost_file_too_large",
    "disk-full": "disk_full",
    "empty-images": "image_incomplete",
    "file-lock": "file_locks_held",
    "file-missing": "file_missing_at_destination",
    "hook-refuses": "hook_refused",
    "leader-outside": "pid_namespace_mismatch",
    "link-remap": "link_remap_needed",
    "listener": "criu_too_old_for_kernel",
    "log-grew": "file_grew_since_dump",
    "mapped-file-missing": "file_missing_at_destination",
    "mode-changed": "file_mode_differs",
    "mptcp": "mptcp_socket",
    "no-image-folder": "image_directory_missing",
    "no-such-process": "process_gone",
    "pid-taken": "pid_in_use",
    "port-taken": "port_in_use",
    "pre-dump": "no_memory_tracking",
    "pstree-missing": "criu_crashed",
    "success": "no_failure_found",
    "sysv-shm": "sysv_shm_without_ipc_namespace",
    "tcp-close-forgotten": "tcp_option_missing_at_restore",
    "tcp-connected": "tcp_connection_open",
    "tcp-in-flight": "tcp_connection_in_flight",
    "track-mem": "no_memory_tracking",
    "unix-outside": "unix_socket_to_outside",
    "unix-outside-allowed": "unix_socket_to_outside",
    "vsock": "socket_type_not_supported",
}
# What the older version says first where both fail.
OLDER = {"4.1.1/tcp-connected": "criu_too_old_for_kernel"}
FILES = sorted(LOGS.glob("*/*.log"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def judged(path: Path) -> Diagnosis:
    status, *lines = path.read_text().splitlines()
    return diagnose(lines, {}, int(status.rpartition(" ")[2]), str(path))


def test_every_case_has_a_log() -> None:
    assert {path.stem for path in FILES} == set(CAUSES)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_cause_of_a_real_log(path: Path) -> None:
    expected = OLDER.get(name_of(path), CAUSES[path.stem])
    assert judged(path).cause == expected


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_cause_does_not_rest_on_the_verdict_line(path: Path) -> None:
    status, *lines = path.read_text().splitlines()
    if path.stem == "success":
        pytest.skip("the verdict is all that a good run says")
    kept = [line for line in lines if "FAILED" not in line]
    code = int(status.rpartition(" ")[2])
    assert diagnose(kept, {}, code, None).cause == judged(path).cause


def test_versions_are_read_from_the_log() -> None:
    told = judged(LOGS / "4.1.1" / "listener.log").sentence
    assert "CRIU 4.1.1" in told
    assert "kernel 6.18.44" in told


def test_concrete_values_of_real_logs() -> None:
    assert "3145728 bytes" in judged(LOGS / "4.2.1" / "deleted-file.log").sentence
    grown = judged(LOGS / "4.2.1" / "log-grew.log")
    assert "/tmp/grow.txt" in grown.sentence
    assert "55 bytes now, 50 recorded" in grown.sentence
    assert "/tmp/cw" in judged(LOGS / "4.2.1" / "cwd-missing.log").sentence
