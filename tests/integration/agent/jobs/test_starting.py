"""Jobs start, run, write and stop under a real supervisor in real namespaces."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gpuguard.agent import processes
from gpuguard.model.errors import GpuguardError, RefusedError, UsageError
from tests.integration.agent.jobs.asking import ended, run, shell, spec, text_of
from tests.integration.agent.kit import Agent, wait_for

pytestmark = pytest.mark.usefixtures("as_root")


def test_job_has_its_own_namespaces_session_and_place(agent: Agent, root: Path) -> None:
    job = run(
        agent,
        shell("echo $A:$PWD; umask; exec sleep 60", cwd="/usr", env={"A": "x y"}),
    )
    assert job["state"] == "running"
    assert job["namespace_pid"] == 1000
    pid, own = job["root"]["pid"], job["supervisor"]["pid"]
    for space in ("pid", "mnt", "ipc"):
        link = Path(f"/proc/{pid}/ns/{space}").readlink()
        assert link == Path(f"/proc/{own}/ns/{space}").readlink()
        assert link != Path(f"/proc/self/ns/{space}").readlink()
    found = processes.stat(pid)
    assert found and found.session == pid and found.tty == 0 and found.parent == own
    assert processes.namespace_pids(own)[-1] == 1
    wait_for(lambda: text_of(agent, lines=9) == "x y:/usr\n0022\n")
    assert sorted(fd.name for fd in Path(f"/proc/{pid}/fd").iterdir()) == ["0", "1", "2"]
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    for fd in (1, 2):
        flags = Path(f"/proc/{pid}/fdinfo/{fd}").read_text()
        assert int(flags.split("flags:")[1].split()[0], 8) & os.O_APPEND


def test_same_request_starts_one_job_also_at_once(agent: Agent, root: Path, world: Path) -> None:
    what = shell(f"echo x >> {world}/starts; exec sleep 60")
    asked = [
        agent.ask("jobs.run", spec=what, request_id="r1", policy={"stop_grace": 1})
        for _ in range(4)
    ]
    answers = [agent.answer(number)["result"]["root"] for number in asked]
    assert all(answer == answers[0] for answer in answers)
    time.sleep(0.2)
    assert (world / "starts").read_text() == "x\n"
    with pytest.raises(RefusedError, match="is running on this node"):
        run(agent, what, "r2")


@pytest.mark.parametrize(
    ("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("sleep .2; exit 3", 3)]
)
def test_exit_code_is_known(agent: Agent, command: str, code: int) -> None:
    run(agent, shell(command))
    job = ended(agent)
    assert (job["state"], job["exit_code"], job["processes"]) == ("exited", code, 0)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (spec("no-such-program"), "command not found: no-such-program"),
        (spec("/etc/passwd"), "cannot execute /etc/passwd: Permission denied"),
        (spec("true", cwd="/no/such"), "cannot enter the working directory /no/such: No such file"),
    ],
)
def test_start_fails_with_the_programs_own_reason(
    agent: Agent, root: Path, what: dict[str, Any], reason: str
) -> None:
    with pytest.raises(GpuguardError, match=reason) as caught:
        run(agent, what)
    assert "supervisor:" not in caught.value.message
    assert list((root / "jobs").iterdir()) == []
    with pytest.raises(UsageError, match="no job train"):
        agent.call("jobs.show", name="train")
    assert run(agent, spec("true"), "r2")["exit_code"] == 0


def test_failed_start_gives_an_earlier_job_its_record_back(agent: Agent, root: Path) -> None:
    assert run(agent, spec("true"))["exit_code"] == 0
    with pytest.raises(GpuguardError, match="command not found"):
        run(agent, spec("no-such-program"), "r2")
    job = agent.call("jobs.show", name="train")
    assert (job["spec"]["command"], job["exit_code"]) == (["true"], 0)


def test_unknown_user_name_and_empty_command(agent: Agent, root: Path) -> None:
    with pytest.raises(UsageError, match="no user 'nobody-here'"):
        run(agent, spec("true", user="nobody-here"))
    assert list((root / "jobs").iterdir()) == []
    with pytest.raises(UsageError, match="not a job name"):
        run(agent, spec("true", name="../up"))
    with pytest.raises(UsageError, match="no command"):
        run(agent, spec())


def test_job_runs_as_its_user(agent: Agent) -> None:
    job = run(agent, spec("sh", "-c", "id -un; echo $HOME; exec sleep 60", user="nobody"))
    assert Path(f"/proc/{job['root']['pid']}").owner() == "nobody"
    wait_for(lambda: text_of(agent, lines=5).startswith("nobody\n"))


def test_stop_asks_then_kills_the_whole_tree(agent: Agent) -> None:
    job = run(agent, shell("trap '' TERM; (trap '' TERM; sleep 61) & sleep 62; sleep 63"))
    members = wait_for(lambda: len(m := processes.tree(job["root"]["pid"])) >= 3 and m)
    began = time.monotonic()
    stopped = agent.call("jobs.stop", name="train", grace=0.3)
    assert 0.25 < time.monotonic() - began < 5
    assert (stopped["state"], stopped["exit_code"]) == ("exited", -9)
    assert not any(processes.alive(entry.ref) for entry in members)
    assert agent.call("jobs.stop", name="train", grace=1)["exit_code"] == -9


def test_stop_lets_a_polite_job_choose_its_code(agent: Agent) -> None:
    run(agent, shell("trap 'exit 5' TERM; echo up; while :; do sleep .05; done"))
    wait_for(lambda: "up" in text_of(agent, lines=1))
    assert agent.call("jobs.stop", name="train", grace=5)["exit_code"] == 5


def test_stopped_tree_is_shown_and_can_be_ended(agent: Agent) -> None:
    job = run(agent, spec("sleep", "60"))
    os.kill(job["root"]["pid"], signal.SIGSTOP)
    wait_for(lambda: agent.call("jobs.show", name="train")["state"] == "stopped")
    assert agent.call("jobs.stop", name="train", grace=5)["exit_code"] == -15


def test_supervisor_forwards_a_signal_to_the_job(agent: Agent) -> None:
    job = run(agent, shell("trap 'exit 9' HUP; echo up; while :; do sleep .05; done"))
    wait_for(lambda: "up" in text_of(agent, lines=1))
    os.kill(job["supervisor"]["pid"], signal.SIGHUP)
    assert ended(agent)["exit_code"] == 9


def test_orphans_stay_in_the_jobs_tree(agent: Agent) -> None:
    job = run(agent, shell("sh -c 'sleep 64 & exit'; exec sleep 65"))
    assert wait_for(lambda: len(m := processes.tree(job["root"]["pid"])) == 2 and m)


def test_forget_takes_ended_jobs_alone(agent: Agent, root: Path) -> None:
    run(agent, spec("sleep", "60"))
    with pytest.raises(RefusedError, match="is running"):
        agent.call("jobs.forget", name="train", force=True)
    agent.call("jobs.stop", name="train", grace=1)
    agent.call("jobs.forget", name="train")
    assert not (root / "jobs" / "train").exists()


def test_log_is_followed_to_the_jobs_end_without_a_gap(agent: Agent) -> None:
    run(
        agent,
        shell("i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; sleep .3; echo end"),
    )
    text = text_of(agent, lines=1000, follow=True)
    assert text == "".join(f"line {number}\n" for number in range(300)) + "end\n"


def test_follow_can_be_cancelled(agent: Agent) -> None:
    run(agent, spec("sleep", "60"))
    number = agent.ask("jobs.logs", name="train", lines=1, follow=True)
    time.sleep(0.2)
    assert agent.call("cancel", id=number) == {"cancelled": True}
    assert agent.answer(number)["result"] is None
