"""Jobs under a real supervisor in real namespaces."""

import dataclasses
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuguard.agent import processes
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.jobs import supervision
from gpuguard.agent.jobs.launching import run_job
from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import GpuguardError, RefusedError, UsageError
from gpuguard.model.jobs import JobPolicy, JobSpec, ProcessRef
from tests.unit.agent.kit import Agent, wait_for
from tests.unit.agent.practice_agent import fill

pytestmark = pytest.mark.usefixtures("as_root")


def spec(*command: str, name: str = "train", **more: Any) -> dict[str, Any]:
    return {"name": name, "uid": "u1", "command": list(command), **more}


def shell(text: str, **more: Any) -> dict[str, Any]:
    return spec("sh", "-c", text, **more)


def run(agent: Agent, what: dict[str, Any], request_id: str = "r1", **more: Any) -> Any:
    return agent.call("jobs.run", spec=what, request_id=request_id, **more)


def text_of(agent: Agent, **params: Any) -> str:
    found: list[str] = []
    agent.call("jobs.logs", lambda event: found.append(event["text"]), name="train", **params)
    return "".join(found)


def ended(agent: Agent, name: str = "train") -> Any:
    return wait_for(
        lambda: (job := agent.call("jobs.show", name=name))["state"] != "running" and job
    )


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


def test_supervisors_last_words_are_in_the_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "no-number", str(root / "jobs/train/status"))
    monkeypatch.setattr("gpuguard.agent.jobs.launching.run_words", lambda folder: words)
    what = JobSpec.from_dict(spec("true"))
    with pytest.raises(GpuguardError, match="did not start: ") as caught:
        run_job(NodePaths(root), what, JobPolicy(), "r1")
    assert "Invalid argument" in caught.value.message
    assert "Traceback" in caught.value.details["supervisor_log"]
    assert list((root / "jobs").iterdir()) == []


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


def test_forget_takes_ended_jobs_alone(agent: Agent, root: Path) -> None:
    run(agent, spec("sleep", "60"))
    with pytest.raises(RefusedError, match="is running"):
        agent.call("jobs.forget", name="train", force=True)
    agent.call("jobs.stop", name="train", grace=1)
    agent.call("jobs.forget", name="train")
    assert not (root / "jobs" / "train").exists()


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


def test_forked_status_of_a_restore_is_read_from_its_pidfile(root: Path, world: Path) -> None:
    """A stand-in for criu: it makes a sibling, stopped, as `-d --restore-sibling` does."""
    folder = root / "jobs" / "back"
    folder.mkdir()
    program = world / "criu"
    program.write_text(
        f"#!{sys.executable}\n"
        "import ctypes, os, signal, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "assert os.readlink(sys.argv[1]) == sys.argv[2], sys.argv\n"
        "pid = libc.syscall(56, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)\n"
        "if pid == 0:\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    os.execvp('sh', ['sh', '-c', 'exit 4'])\n"
        "open(sys.argv[sys.argv.index('--pidfile') + 1], 'w').write(f'{pid}\\n')\n"
    )
    program.chmod(0o755)
    held = fcntl.fcntl(os.open(world, os.O_RDONLY), fcntl.F_DUPFD_CLOEXEC, 200)
    known: list[ProcessRef] = []
    criu = (str(program), f"/proc/self/fd/{held}", str(world), "--pidfile", f"{folder}/status.pid")
    words = supervision.restore_words(folder, 1999, criu)
    launch = supervision.Launch(folder, words, pass_fds=(held,))
    done = supervision.start_supervised(launch, known.append)
    os.close(held)
    assert known == [done.supervisor]
    assert done.root and done.namespace_pid > 2000
    pid = done.root.pid
    wait_for(lambda: processes.states([pid])[pid] == "T")
    assert supervision.find_supervisor(folder) == done.supervisor
    assert not list(Path(f"/proc/{done.supervisor.pid}/fd").glob(str(held)))
    processes.send_signal(done.root, signal.SIGCONT)
    assert processes.wait_gone(done.supervisor, 10)
    assert (folder / "status").read_text().strip() == "exit 4"


def test_failed_restore_says_how_criu_ended(root: Path) -> None:
    folder = root / "jobs" / "back"
    folder.mkdir()
    words = supervision.restore_words(folder, 1999, ("false", "--pidfile", "x"))
    with pytest.raises(GpuguardError, match="criu ended with exit code 1"):
        supervision.start_supervised(supervision.Launch(folder, words))


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


def test_supervisor_needs_no_file_of_the_agent_once_it_runs(root: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied" / "supervisor.py"
    copied.parent.mkdir()
    shutil.copy(Path(supervision.__file__).with_name("supervisor.py"), copied)
    folder = root / "jobs" / "alone"
    folder.mkdir()
    order = {
        "command": ["sh", "-c", "sleep .5; exit 8"],
        "cwd": "/",
        "env": {"PATH": os.environ["PATH"]},
        "user": None,
        "log": str(folder / "log"),
        "oom_score_adj": "0",
    }
    words = supervision.run_words(folder)
    command = [
        str(copied) if w.endswith("supervisor.py") else w
        for w in supervision.supervisor_argv(words)
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    wait_for(lambda: (folder / "status").exists())
    shutil.rmtree(copied.parent)
    process.wait(10)
    assert (folder / "status").read_text().strip() == "exit 8"


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
