"""CRIU's invocations as data, and its version rules."""

import pytest

from gpuguard.agent.criu.invocations import DumpOrder, dump_command, judge_version, restore_command

ORDER = DumpOrder(1000, 77, 9, 8, 7, 4096, shell_job=False, leave_stopped=False)


def test_the_dump_of_a_job_in_namespaces() -> None:
    assert " ".join(dump_command(ORDER)) == (
        "nsenter -t 77 -p -m criu dump -t 1000 -D /proc/self/fd/9 -W /proc/self/fd/8 -o dump.log "
        "-v4 --no-default-config --libdir /proc/self/fd/7 --manage-cgroups=ignore --tcp-close "
        "--file-locks --ghost-limit 4096 --action-script ./gate.sh --leave-running"
    )


def test_the_first_dump_of_an_adopted_job() -> None:
    order = DumpOrder(4711, None, 9, 8, 7, 4096, shell_job=True, leave_stopped=True)
    command = " ".join(dump_command(order))
    assert command.startswith("criu dump -t 4711 ")
    assert " --shell-job " in command
    assert command.endswith(" --leave-stopped")


def test_a_restore_replays_the_options_of_its_dump() -> None:
    options = ("--manage-cgroups=ignore", "--tcp-close", "--file-locks", "--shell-job")
    assert " ".join(restore_command("/i", "/w", "/p", "/w/root.pid", options)) == (
        "criu restore -D /i -W /w -o restore.log -v4 --no-default-config --libdir /p "
        "--manage-cgroups=ignore --tcp-close --file-locks --shell-job -d --restore-sibling "
        "--leave-stopped --pidfile /w/root.pid"
    )


@pytest.mark.parametrize(
    ("version", "kernel", "fits"),
    [
        ("4.2.1", "6.18.44", True),
        ("4.2", "6.16.0-rc1", True),
        ("4.1.1", "6.16.0", False),
        ("4.1.1", "6.15.9", True),
        ("4.10", "6.18", True),
        ("3.17.1", "6.1.0", False),
        (None, "6.1.0", False),
    ],
)
def test_versions(version: str, kernel: str, fits: bool) -> None:
    assert (judge_version(version, kernel) is None) == fits
