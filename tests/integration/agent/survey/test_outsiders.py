"""A job that forks while it is looked at is no stranger to itself; a real stranger is one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuguard.agent import processes
from gpuguard.agent.survey.outsiders import belongs, holders_outside, strangers
from gpuguard.agent.survey.sentences import listed, named, named_together, one_line
from gpuguard.agent.survey.survey import survey_job
from gpuguard.model.plans import Level
from tests.integration.agent.kit import Agent, wait_for
from tests.integration.agent.odd_jobs import running
from tests.unit.agent.job_records import job_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="looks into other processes")

FORKS = """
import os, socket, subprocess, time
print('ready', flush=True)
while True:
    pair = socket.socketpair()
    held = os.pipe()
    children = [
        subprocess.Popen(['sleep', '0.02'], stdin=held[0], stdout=pair[1]) for _ in range(20)
    ]
    for end in pair:
        end.close()
    for child in children:
        child.wait()
    os.close(held[0]), os.close(held[1])
"""


def start(agent: Agent, *command: str) -> "tuple[int, int]":
    spec = {"name": "train", "uid": "u1", "command": list(command)}
    job = agent.call("jobs.run", spec=spec, request_id="r1")
    return job["supervisor"]["pid"], job["root"]["pid"]


@pytest.mark.usefixtures("as_root")
def test_children_that_come_and_go_are_no_finding(agent: Agent, root: Path) -> None:
    from dataclasses import replace

    from gpuguard.model.jobs import ProcessRef

    supervisor, top = start(agent, sys.executable, "-c", FORKS)
    wait_for(lambda: len(processes.children(top)) > 10)
    life_line = ProcessRef(supervisor, processes.start_time(supervisor) or 0)
    job = replace(job_of(top), supervisor=life_line)
    found = [item for _ in range(30) for item in survey_job(job).findings]
    assert [item.text for item in found if item.level is Level.ERROR] == []
    stray = subprocess.Popen(["nsenter", "-t", str(supervisor), "-p", "-m", "sleep", "60"])
    try:
        wait_for(lambda: processes.children(stray.pid))
        texts = [item.text for item in survey_job(job).findings if item.code == "stranger"]
    finally:
        for pid in processes.children(stray.pid):
            os.kill(pid, 9)
        stray.wait()
    assert len(texts) == 1
    assert "(sleep 60) lives in its namespaces but is not of its tree" in texts[0]


def test_descent_is_of_any_depth_and_the_dead_belong_to_nobody() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        grandchild = int(child.stdout.readline())
    assert belongs(grandchild, child.pid)
    assert belongs(child.pid, child.pid)
    assert not belongs(os.getppid(), child.pid)
    assert not belongs(1, child.pid)
    os.kill(grandchild, 9)
    child.wait()
    assert belongs(child.pid, os.getpid())


def test_a_job_of_this_namespace_has_everyone_else_as_strangers(tmp_path: Path) -> None:
    with running("subprocess.Popen(['sleep', '60'])", tmp_path) as process:
        found = {task.pid for task in strangers(os.getpid(), process.pid)}
        children = processes.children(process.pid)
    assert os.getppid() in found
    assert children
    assert not {process.pid, *children, os.getpid()} & found


def test_holders_of_a_pipe_are_told_with_one_sentence_on_one_line(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    program = "import time\ntime.sleep(60)"
    others = [
        subprocess.Popen([sys.executable, "-c", program], pass_fds=(reader,)) for _ in range(5)
    ]
    try:
        with running("", tmp_path, pass_fds=(writer,)) as process:
            os.close(writer)
            os.close(reader)
            wait_for(lambda: all(b"time" in processes.command_line(p.pid)[-1] for p in others))
            (found,) = survey_job(job_of(process.pid)).findings
            targets = {str(Path(f"/proc/{others[0].pid}/fd/{reader}").readlink())}
            assert set(holders_outside(process.pid, targets, set())) == {o.pid for o in others}
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert found.code == "shared-outside"
    assert found.text.startswith(
        f"5 processes outside of its tree ({sys.executable} -c import time"
    )
    assert "\\ntime.sleep(60)" in found.text
    assert "\n" not in found.text
    assert found.text.count("pipe:[") == 1


def test_a_process_that_is_gone_is_named_and_a_long_command_cut() -> None:
    assert named(2**22 + 1) == f"process {2**22 + 1} (gone)"
    with subprocess.Popen(["sh", "-c", "read x # " + "x" * 200], stdin=subprocess.PIPE) as shell:
        wait_for(lambda: b"read" in b" ".join(processes.command_line(shell.pid)))
        assert len(named(shell.pid)) < 100
        assert "…" in named(shell.pid)
        assert named_together([shell.pid]) == named(shell.pid)
        shell.kill()
    assert listed([1, 2, 3, 4]) == "1, 2, 3, …"
    assert one_line("a\x1b[31m\nb é") == "a\\x1b[31m\\nb é"


def test_a_peer_that_stays_outside_is_found_among_short_lived_pairs(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, running("", tmp_path, pass_fds=(theirs.fileno(),)) as process:
        theirs.close()
        found = {item.code for item in survey_job(job_of(process.pid)).findings}
    assert "unix-stream-outside" in found
