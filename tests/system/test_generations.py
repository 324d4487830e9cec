"""A job goes round three hosts and stays one unbroken run: launched and adopted, all it holds."""

import time

import pytest

from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal
from gpuguard.sandbox.verification import read_steps
from tests.system.kit import Operator, copies, until

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
ROUND = (("node1", "node2"), ("node2", "node3"), ("node3", "node1"))
HOLDS = ["--all", "--size-mib", "8", "--tick", "0.05"]


def go_round(operator: Operator, job: str) -> None:
    """Move the job 1 → 2 → 3 → 1, with a heartbeat's checkpoint between the moves."""
    for source, target in ROUND:
        time.sleep(0.3)
        operator.run("checkpoint", job)
        operator.run("migrate", job, "--to", target, "--yes")
        states = operator.jobs(job)
        assert states[target] == "running"
        assert states[source] == "moved"
        assert [state for state in states.values() if state == "running"] == ["running"]


def read_file(sandbox: Sandbox, host: str, path: str) -> str:
    return sandbox.path(host, path).read_text()


def test_a_launched_job_goes_round(operator: Operator) -> None:
    sandbox = operator.sandbox
    operator.run(
        *("jobs", "run", "round", "--host", "node1", "--", "steps", *HOLDS),
        *("--port", "7001", "--connect", "self", "--cwd", "/srv/round"),
        *("--plain-log", "/srv/round.plain"),
    )
    go_round(operator, "round")
    time.sleep(0.5)

    log = operator.log("round")
    report = read_steps(log)
    assert report.findings == []
    assert report.repeated == 0
    assert report.last > 20
    plain = read_file(sandbox, "node1", "/srv/round.plain")
    assert read_steps(plain).findings == []
    assert "0.0.0.0:7001" in sandbox.run("node1", ["ss", "-ltn"]).stdout
    assert {host for host, _ in copies(sandbox, "--port 7001")} == {"node1"}

    operator.run("jobs", "stop", "round")
    until(lambda: not copies(sandbox, "--port 7001"), what="the end of the job")
    assert operator.jobs("round")["node1"] == "exited"


def test_an_adopted_job_that_leads_no_session_goes_round(operator: Operator) -> None:
    sandbox = operator.sandbox
    pid = sandbox.start_workload(
        "node1",
        [
            *("--child", "--thread", "--deleted", "--tick", "0.05", "--port", "7002"),
            *("--log", "/srv/adopted.log", "--plain-log", "/srv/adopted.plain"),
        ],
        in_shell=True,
    )
    operator.run("jobs", "adopt", "guest", "--host", "node1", "--pid", str(pid))
    assert operator.run("jobs", "show", "guest", "-o", "json").json["shell_job"] is True
    go_round(operator, "guest")
    time.sleep(0.5)

    for path in ("/srv/adopted.log", "/srv/adopted.plain"):
        report = read_steps(read_file(sandbox, "node1", path))
        assert report.findings == [], path
        assert report.repeated == 0
    assert {host for host, _ in copies(sandbox, "--port 7002")} == {"node1"}
    operator.run("jobs", "stop", "guest")


def test_the_exit_code_is_known_after_a_move(operator: Operator) -> None:
    operator.run(
        *("jobs", "run", "ends", "--host", "node2", "--"),
        *("steps", "--steps", "120", "--tick", "0.05", "--exit-code", "7"),
    )
    operator.run("migrate", "ends", "--to", "node3", "--yes")
    until(lambda: operator.jobs("ends")["node3"] == "exited", 30, "the end of the job")
    shown = operator.run("jobs", "show", "ends", "-o", "json").json
    assert shown["exit_code"] == 7
    assert read_steps(operator.log("ends")).findings == []


def test_a_host_without_power_is_proof_and_its_job_comes_back(operator: Operator) -> None:
    sandbox = operator.sandbox
    operator.run(
        *("jobs", "run", "lost", "--host", "node2", "--", "steps", "--size-mib", "8"),
        *("--tick", "0.05", "--port", "7003"),
    )
    time.sleep(0.5)
    operator.run("checkpoint", "lost")
    saved = read_steps(operator.log("lost")).last
    time.sleep(0.5)
    sandbox.power("node2", "off")
    try:
        assert copies(sandbox, "--port 7003") == []
        operator.run("restore", "lost", "--to", "node3", "--yes")
        # The log was read after the checkpoint: the restored job has to catch up with it first.
        until(lambda: read_steps(operator.log("lost")).last > saved, what="progress")
        assert read_steps(operator.log("lost")).findings == []
    finally:
        sandbox.power("node2", "on")
    # The old host comes back: its disk still says the job is its own, but the boot id has changed.
    assert operator.jobs("lost") == {"node2": "lost", "node3": "running"}
    assert {host for host, _ in copies(sandbox, "--port 7003")} == {"node3"}
    operator.run("jobs", "stop", "lost")


def test_a_cut_host_that_comes_back_has_its_stale_copy_stopped(operator: Operator) -> None:
    sandbox = operator.sandbox
    operator.run(
        *("jobs", "run", "split", "--host", "node1", "--", "steps", "--tick", "0.05"),
        *("--port", "7004"),
    )
    time.sleep(0.3)
    operator.run("checkpoint", "split")
    sandbox.cut("node1")
    try:
        operator.run("restore", "split", "--to", "node2", "--assume-dead", "node1", "--yes")
    finally:
        sandbox.heal("node1")
    assert operator.jobs("split") == {"node1": "stale", "node2": "running"}
    assert {host for host, _ in copies(sandbox, "--port 7004")} == {"node2"}
    assert read_steps(operator.log("split")).findings == []
    operator.run("jobs", "stop", "split")
