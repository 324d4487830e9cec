"""How processes are detached, as data: systemd itself is not needed."""

import sys
from pathlib import Path

from gpuguard.agent.jobs import supervision
from gpuguard.agent.procedures import detach


def test_agent_starts_itself_apart_from_the_callers_folder() -> None:
    argv = detach.agent_argv("watchdog", "p1", "/log")
    assert argv[:2] == (sys.executable, "-IS")
    assert Path(argv[2]).name == "main.py" and Path(argv[2]).is_absolute()
    assert argv[3:] == ("watchdog", "p1", "/log")


def test_unit_outlives_the_login_and_spares_the_jobs_supervisor() -> None:
    argv = detach.unit_argv("gpuguard-watchdog-p1", Path("/srv/g"), ("python3", "x y"))
    assert argv[0] == "systemd-run"
    for option in (
        "--unit=gpuguard-watchdog-p1",
        "--property=KillMode=process",
        "--property=SendSIGKILL=no",
        "--property=Delegate=yes",
        "--setenv=GPUGUARD_NODE_ROOT=/srv/g",
    ):
        assert option in argv
    assert argv[-3:] == ("--", "python3", "x y")


def test_job_gets_a_scope_so_that_it_stays_our_child() -> None:
    argv = detach.scope_argv("gpuguard-job-train", ("unshare", "-p"))
    assert "--scope" in argv and "--unit=gpuguard-job-train" in argv
    assert argv[-3:] == ("--", "unshare", "-p")


def test_supervisor_starts_in_fresh_namespaces_with_slave_mounts() -> None:
    criu = ("criu", "restore", "--pidfile", "p")
    words = supervision.restore_words(Path("/jobs/a"), 5000, criu)
    argv = supervision.supervisor_argv(words)
    spaces = "unshare -p -i -m --propagation slave --fork --mount-proc"
    assert " ".join(argv).startswith(f"{spaces} {sys.executable} -I ")
    assert argv[-8:] == ("restore", "5000", "/jobs/a/status", "--", *criu)
