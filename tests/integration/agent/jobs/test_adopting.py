"""Processes that become jobs where they run, and those that must not."""

import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpuguard.agent import processes
from gpuguard.model.errors import RefusedError, UsageError
from tests.integration.agent.jobs.asking import run, spec
from tests.integration.agent.kit import Agent, wait_for

pytestmark = pytest.mark.usefixtures("as_root")


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def adopt(agent: Agent, pid: int, name: str = "train") -> Any:
    return agent.call("jobs.adopt", spec={"name": name, "uid": "u1"}, pid=pid)


def test_adopted_job_is_known_shown_and_let_go(
    agent: Agent, bystander: "subprocess.Popen[bytes]"
) -> None:
    job = adopt(agent, bystander.pid)
    assert (job["origin"], job["state"], job["shell_job"]) == ("adopted", "running", False)
    assert job["spec"]["command"] == ["sleep", "60"]
    assert job["namespace_pid"] == bystander.pid
    assert adopt(agent, bystander.pid) == job
    with pytest.raises(RefusedError, match="belongs to job train"):
        adopt(agent, bystander.pid, "other")
    with pytest.raises(RefusedError) as caught:
        agent.call("jobs.forget", name="train")
    assert "--force" in str(caught.value.hint)
    agent.call("jobs.forget", name="train", force=True)
    assert bystander.poll() is None


def test_adopted_job_ends_without_a_known_code(
    agent: Agent, bystander: "subprocess.Popen[bytes]"
) -> None:
    adopt(agent, bystander.pid)
    threading.Thread(target=bystander.wait, daemon=True).start()
    job = agent.call("jobs.stop", name="train", grace=2)
    assert (job["state"], job["exit_code"]) == ("exited", None)
    assert bystander.returncode == -15


def test_adopted_child_without_a_session_is_a_shell_job(agent: Agent) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        assert adopt(agent, process.pid)["shell_job"] is True
    finally:
        process.kill()
        process.wait()


def test_what_must_not_be_adopted(agent: Agent) -> None:
    with pytest.raises(UsageError, match="no process"):
        adopt(agent, 2**22 - 3)
    with pytest.raises(RefusedError, match="init"):
        adopt(agent, 1)
    with pytest.raises(RefusedError, match="own connection"):
        adopt(agent, os.getpid())
    job = run(agent, spec("sleep", "60", name="mine"))
    for pid in (job["root"]["pid"], job["supervisor"]["pid"]):
        with pytest.raises(RefusedError, match=r"job mine|own"):
            adopt(agent, pid)
    process = subprocess.Popen(["unshare", "-p", "--fork", "--kill-child", "sleep", "60"])
    try:
        inner = wait_for(lambda: processes.children(process.pid))[0]
        wait_for(lambda: processes.command_line(inner) == [b"sleep", b"60"])
        with pytest.raises(RefusedError, match="container"):
            adopt(agent, inner)
    finally:
        process.kill()
        process.wait()
    if processes.stat(2):
        with pytest.raises(RefusedError, match="kernel"):
            adopt(agent, 2)
