"""Resuming, proving and ending a real tree."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.agent.jobs.tree_control import (
    await_stop,
    end_tree,
    prove_running,
    resume_tree,
    stop_problems,
)
from gpuguard.agent.processes import alive, ref
from gpuguard.agent.survey.tree_record import read_task, read_tree, record_tree
from gpuguard.model.errors import GpuguardError
from gpuguard.model.jobs import ProcessRef

PROGRAM = """
import os, time
child = os.fork()
if child == 0:
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""


@pytest.fixture
def tree() -> "Iterator[tuple[ProcessRef, int]]":
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        child = int(running.stdout.readline())
        root = ref(running.pid)
        assert root is not None
        yield root, child
        for pid in (running.pid, child):
            if read_task(pid):
                os.kill(pid, signal.SIGKILL)


def stop(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    while not all((task := read_task(pid)) and task.stopped for pid in pids):
        time.sleep(0.005)


def test_a_stopped_tree_goes_on(tree: "tuple[ProcessRef, int]") -> None:
    root, child = tree
    stop(root.pid, child)
    assert stop_problems(root) == []
    assert resume_tree(root, [], 5)
    assert prove_running(root, [], 1)
    assert len(stop_problems(root)) == 2


def test_a_tree_may_take_its_time_to_stop(tree: "tuple[ProcessRef, int]") -> None:
    root, child = tree
    timer = threading.Timer(0.1, lambda: stop(root.pid, child))
    timer.start()
    assert await_stop(root, 10.0) == []
    timer.join()
    os.kill(child, signal.SIGCONT)
    assert await_stop(root, 0.05) != []


def test_what_was_stopped_before_stays_stopped(tree: "tuple[ProcessRef, int]") -> None:
    root, child = tree
    stop(root.pid, child)
    assert resume_tree(root, [child], 5)
    task = read_task(child)
    assert task is not None
    assert task.stopped


def test_a_tree_that_stays_stopped_is_no_success(tree: "tuple[ProcessRef, int]") -> None:
    root, child = tree
    stop(child)
    with pytest.raises(GpuguardError, match=f"{child}") as caught:
        prove_running(root, [], 0.1)
    assert caught.value.hint == f"kill -CONT {child}"


def test_a_stopped_tree_can_be_ended(tree: "tuple[ProcessRef, int]") -> None:
    root, child = tree
    stop(root.pid, child)
    end_tree(root, 10)
    assert not alive(root)
    assert (task := read_task(child)) is None or task.zombie
    assert stop_problems(root) == ["the job is gone"]
    assert not resume_tree(root, [], 1)


def test_the_tree_is_recorded_with_its_parents(tree: "tuple[ProcessRef, int]") -> None:
    root, child = tree
    tasks = read_tree(root.pid)
    assert [task.pid for task in tasks] == [root.pid, child]
    record = record_tree(tasks)
    assert (record[0].parent, record[1].parent) == (0, root.pid)
    assert record[0].exe == os.path.realpath(sys.executable)
    assert record[0].cwd == str(Path.cwd())
    assert record[0].resident > 1 << 20


def test_children_that_the_job_stops_and_ends_do_not_fail_the_proof() -> None:
    program = """
import os, signal, subprocess, time
print('ready', flush=True)
held = []
while True:
    held.append(subprocess.Popen(['sleep', '60']))
    held[-1].send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    for one in held[:-1]:
        one.kill()
        one.wait()
    del held[:-1]
"""
    job = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    assert job.stdout is not None
    try:
        with job.stdout:
            job.stdout.readline()
        found = ref(job.pid)
        assert found is not None
        assert all(prove_running(found, [], 2) for _ in range(5))
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
