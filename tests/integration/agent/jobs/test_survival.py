"""What a job outlives and how it is found again: dead agents, cut starts, disks, old copies."""

import dataclasses
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gpuguard.agent import processes
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.paths import NodePaths
from gpuguard.model.jobs import ProcessRef
from tests.integration.agent.jobs.asking import ended, run, shell, spec
from tests.integration.agent.kit import Agent, wait_for
from tests.integration.agent.practice_agent import fill

pytestmark = pytest.mark.usefixtures("as_root")


def test_job_outlives_the_agent_and_is_found_again(root: Path) -> None:
    first = Agent(root)
    job = run(first, spec("sleep", "60"))
    first.kill()
    second = Agent(root)
    assert second.call("jobs.list")[0]["root"] == job["root"]
    assert second.call("jobs.stop", name="train", grace=1)["exit_code"] == -15
    second.close()


def test_job_is_found_again_when_its_start_was_cut_off(agent: Agent, root: Path) -> None:
    job = run(agent, spec("sleep", "60"))
    path = root / "jobs" / "train" / "job.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "root": None, "supervisor": None}))
    found = agent.call("jobs.show", name="train")
    assert (found["root"], found["supervisor"]) == (job["root"], job["supervisor"])
    assert run(agent, spec("sleep", "60"))["root"] == job["root"]


def test_killed_life_line_is_a_lost_job(agent: Agent) -> None:
    job = run(agent, spec("sleep", "60"))
    os.kill(job["supervisor"]["pid"], signal.SIGKILL)
    lost = wait_for(lambda: (j := agent.call("jobs.show", name="train"))["state"] == "lost" and j)
    assert "supervisor was killed" in lost["note"]
    assert not processes.alive(ProcessRef.from_dict(job["root"]))


def test_killed_outer_unshare_does_no_harm(agent: Agent) -> None:
    job = run(agent, spec("sleep", "60"))
    own = processes.stat(job["supervisor"]["pid"])
    assert own
    os.kill(own.parent, signal.SIGKILL)
    time.sleep(0.2)
    assert agent.call("jobs.show", name="train")["state"] == "running"
    assert agent.call("jobs.stop", name="train", grace=1)["exit_code"] == -15


def test_other_boot_means_lost_although_the_pid_lives(agent: Agent, root: Path) -> None:
    run(agent, spec("sleep", "60"))
    path = root / "jobs" / "train" / "job.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "boot_id": "an-earlier-one"}))
    assert agent.call("jobs.show", name="train")["state"] == "lost"
    path.write_text(json.dumps(data))


def test_gone_record_means_moved_until_it_comes_back_later(agent: Agent, root: Path) -> None:
    run(agent, spec("sleep", "60"))
    gone = root / "jobs" / "train" / "gone"
    gone.mkdir()
    (gone / "1.json").write_text("{}")
    assert agent.call("jobs.show", name="train")["state"] == "moved"
    paths = NodePaths(root)
    jobs.save_job(paths, dataclasses.replace(jobs.stored_job(paths, "train"), epoch=2))
    assert agent.call("jobs.show", name="train")["state"] == "running"


def test_exit_code_survives_a_full_disk(tmp_path: Path) -> None:
    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root)], check=True)
    agent = Agent(root)
    try:
        flag = tmp_path / "flag"
        run(agent, shell(f"while ! test -e {flag}; do sleep .05; done; exit 6"))
        fill(root)
        flag.touch()
        assert ended(agent)["exit_code"] == 6
    finally:
        agent.close()
        wait_for(lambda: subprocess.run(["umount", str(root)], check=False).returncode == 0)


def test_stale_copy_is_stopped_at_first_contact(root: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = Agent(root)
    job = run(first, spec("sleep", "60"), policy={"store": str(store)})
    run(first, spec("sleep", "60", name="other"), policy={"store": str(tmp_path / "nowhere")})
    first.close()
    epochs = store / "train" / "epochs"
    epochs.mkdir(parents=True)
    record = {"epoch": 2, "host": "gpu002", "uid": "another", "procedure": "p", "at": "now"}
    (epochs / "2").write_text(json.dumps(record))
    second = Agent(root)
    assert second.hello["fenced"] == []
    second.close()
    (epochs / "2").write_text(json.dumps({**record, "uid": "u1"}))
    third = Agent(root)
    assert third.hello["fenced"] == ["train"]
    assert third.call("jobs.show", name="train")["state"] == "stale"
    assert third.call("jobs.show", name="other")["state"] == "running"
    assert not processes.alive(ProcessRef.from_dict(job["root"]))
    third.close()


def test_agent_killed_at_any_moment_of_a_start_leaves_one_job(root: Path, world: Path) -> None:
    """Cut at six moments; the same request again ends with exactly one job at work."""
    mark = f"{world}/starts"
    for number in range(6):
        name = f"job{number}"
        what = shell(f"echo {name} >> {mark}; exec sleep 60", name=name)
        first = Agent(root)
        first.ask("jobs.run", spec=what, request_id=f"r{number}")
        time.sleep(number * 0.012)
        first.kill()
        second = Agent(root)
        job = second.call("jobs.run", spec=what, request_id=f"r{number}")
        assert job["state"] == "running"
        second.close()
    wait_for(lambda: len(Path(mark).read_text().splitlines()) >= 6)
    assert sorted(Path(mark).read_text().split()) == sorted(f"job{n}" for n in range(6))


def test_job_whose_start_was_cut_off_before_its_order_is_started_by_the_same_request(
    agent: Agent, root: Path
) -> None:
    job = run(agent, spec("sleep", "60"))
    agent.call("jobs.stop", name="train", grace=1)
    path = root / "jobs" / "train" / "job.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "root": None, "state": "running"}))
    (path.parent / "status").unlink()
    assert agent.call("jobs.show", name="train")["state"] == "lost"
    again = run(agent, spec("sleep", "60"))
    assert again["state"] == "running" and again["root"] != job["root"]
