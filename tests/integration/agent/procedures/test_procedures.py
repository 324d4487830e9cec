"""Procedures as a node carries them out: real processes, killed for real."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gpuguard.agent import processes
from gpuguard.model.errors import BusyError, GpuguardError, RefusedError, UsageError
from tests.integration.agent.kit import Agent, at_work, calls, release, request, wait_for


def follow(agent: Agent, procedure_id: str, after: int = 0) -> tuple[dict[str, Any], list[Any]]:
    seen: list[Any] = []
    status = agent.call(
        "procedures.watch",
        lambda event: seen.append(event["entry"]),
        id=procedure_id,
        after_seq=after,
    )
    return status, seen


def test_procedure_runs_to_its_end_and_journals_each_step(agent: Agent, world: Path) -> None:
    started = agent.call("procedures.start", request=request("p1", world))
    assert started["state"] in ("running", "done")
    status, seen = follow(agent, "p1")
    assert status["state"] == "done"
    assert status["result"] == {"one": "made", "two": "made", "three": "made"}
    marks = [(e["step"], e["state"]) for e in seen if e["state"] in ("begin", "done")]
    assert marks == [(step, s) for step in ("one", "two", "three") for s in ("begin", "done")]
    assert [entry["seq"] for entry in seen] == list(range(1, len(seen) + 1))


def test_same_id_is_answered_from_the_journal(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world))
    follow(agent, "p1")
    again = agent.call("procedures.start", request=request("p1", world))
    assert again["state"] == "done"
    assert calls(world) == ["do one", "do two", "do three"]


def test_failed_step_is_undone_with_all_before_it(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, fails="two"))
    status, _ = follow(agent, "p1")
    assert status["state"] == "failed"
    assert status["error"]["message"] == "two was told to fail"
    assert calls(world) == ["do one", "do two", "undo two", "undo one"]


def test_unexpected_exception_names_its_place(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, breaks="one"))
    status, _ = follow(agent, "p1")
    assert status["state"] == "failed"
    assert "practice_agent.py:" in status["error"]["message"]
    assert "ZeroDivisionError" in status["error"]["message"]


def test_failing_undo_is_unsettled_and_the_rest_is_still_undone(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, fails="two", cannot_undo="two"))
    status, _ = follow(agent, "p1")
    assert status["state"] == "unsettled"
    assert status["error"]["hint"] == "remove it by hand"
    assert "two stays" in status["error"]["message"]
    assert not (world / "one").exists()


def test_failure_after_the_commit_is_never_undone(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, fails="three"))
    status, _ = follow(agent, "p1")
    assert status["state"] == "unsettled"
    assert calls(world) == ["do one", "do two", "do three"]


def test_second_procedure_on_a_job_is_busy_and_names_the_holder(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    with pytest.raises(BusyError) as caught:
        agent.call("procedures.start", request=request("p2", world))
    holder = caught.value.details["holder"]
    assert holder["procedure"] == "p1"
    assert holder["since"]
    assert processes.start_time(holder["pid"]) == holder["start_time"]
    assert [status["id"] for status in agent.call("procedures.list")] == ["p1"]


def test_a_job_is_not_started_while_a_procedure_works_on_it(
    agent: Agent, world: Path, as_root: None
) -> None:
    agent.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    with pytest.raises(BusyError):
        agent.call("jobs.run", spec={"name": "train", "uid": "u", "command": ["true"]})


def test_hold_waits_for_its_word(agent: Agent, world: Path) -> None:
    with pytest.raises(UsageError):
        agent.call("procedures.tell", id="p1", word="go", data={})
    agent.call("procedures.start", request=request("p1", world, hold=20))
    with pytest.raises(UsageError, match="no word 'jump'"):
        agent.call("procedures.tell", id="p1", word="jump", data={})
    status, _ = follow(agent, "p1")
    assert status["state"] == "holding"
    told = agent.call("procedures.tell", id="p1", word="go", data={"epoch": 3})
    assert told["state"] != "holding"
    status, _ = follow(agent, "p1")
    assert status["state"] == "done"
    assert status["result"]["told"] == ["go", {"epoch": 3}]
    assert agent.call("procedures.tell", id="p1", word="go", data={})["state"] == "done"
    with pytest.raises(RefusedError):
        agent.call("procedures.tell", id="p1", word="discard", data={})


def test_hold_ends_at_its_deadline(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, hold=0.2))
    wait_for(lambda: agent.call("procedures.show", id="p1")["status"]["state"] == "failed")
    assert calls(world) == ["do one", "undo one"]
    with pytest.raises(RefusedError):
        agent.call("procedures.tell", id="p1", word="go", data={})


def test_agent_may_go_while_the_procedure_runs(root: Path, world: Path) -> None:
    first = Agent(root)
    first.call("procedures.start", request=request("p1", world, waits="one"))
    first.kill()
    second = Agent(root)
    assert second.hello["recovered"] == []
    release(world)
    status, seen = follow(second, "p1")
    assert status["state"] == "done"
    assert seen[0]["step"] == "start"
    second.close()


def test_killed_runner_is_undone_by_the_watchdog(agent: Agent, root: Path, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    wait_for(lambda: "do one" in calls(world))
    _, runner = at_work(root, "p1")
    processes.send_signal(runner, signal.SIGKILL)
    status, _ = follow(agent, "p1")
    assert status["state"] == "failed"
    assert "cut off" in status["error"]["message"]
    assert calls(world) == ["do one", "undo one"]


def test_killed_runner_after_the_commit_goes_forward(agent: Agent, root: Path, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, slow={"three": 30}))
    wait_for(lambda: "do three" in calls(world))
    _, runner = at_work(root, "p1")
    processes.send_signal(runner, signal.SIGKILL)
    status, _ = follow(agent, "p1")
    assert status["state"] == "done"
    assert status["result"] == {"one": "made", "two": "made", "three": "made"}
    assert calls(world) == ["do one", "do two", "do three", "do three"]


def test_killed_watchdog_leaves_the_runner_its_locks(agent: Agent, root: Path, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, waits="one"))
    watchdog, runner = wait_for(lambda: at_work(root, "p1")[1:] and at_work(root, "p1"))
    processes.send_signal(watchdog, signal.SIGKILL)
    with pytest.raises(BusyError):
        agent.call("procedures.start", request=request("p2", world))
    assert processes.alive(runner)
    release(world)
    assert follow(agent, "p1")[0]["state"] == "done"


def kill_both(root: Path, procedure_id: str) -> None:
    pair = wait_for(lambda: at_work(root, procedure_id)[1:] and at_work(root, procedure_id))
    for ref in pair:
        processes.send_signal(ref, signal.SIGKILL)
    for ref in pair:
        assert processes.wait_gone(ref, 5)


def test_both_killed_is_recovered_at_the_next_start(root: Path, world: Path) -> None:
    first = Agent(root)
    first.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    wait_for(lambda: "do one" in calls(world))
    kill_both(root, "p1")
    assert first.call("procedures.show", id="p1")["status"]["state"] == "abandoned"
    first.close()
    second = Agent(root)
    assert second.hello["recovered"] == ["p1"]
    assert second.call("procedures.show", id="p1")["status"]["state"] == "failed"
    assert calls(world) == ["do one", "undo one"]
    second.close()


def test_both_killed_is_recovered_before_the_job_is_touched_again(
    agent: Agent, root: Path, world: Path
) -> None:
    agent.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    wait_for(lambda: "do one" in calls(world))
    kill_both(root, "p1")
    agent.call("procedures.start", request=request("p2", world))
    follow(agent, "p2")
    assert calls(world)[:3] == ["do one", "undo one", "do one"]


def test_recovery_waits_for_criu(agent: Agent, root: Path, world: Path) -> None:
    import subprocess

    criu = subprocess.Popen(["sleep", "30"])
    known = processes.ref(criu.pid)
    assert known
    agent.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    wait_for(lambda: "do one" in calls(world))
    _, runner = at_work(root, "p1")
    journal = root / "procedures" / "p1" / "journal.jsonl"
    last = json.loads(journal.read_text().splitlines()[-1])
    note = {**last, "seq": last["seq"] + 1, "data": {"criu": known.to_dict()}}
    with journal.open("a") as file:
        file.write(json.dumps(note) + "\n")
    processes.send_signal(runner, signal.SIGKILL)
    wait_for(lambda: f"waits for criu, pid {criu.pid}" in journal.read_text())
    assert calls(world) == ["do one"]
    assert criu.poll() is None
    criu.kill()
    criu.wait()
    status, _ = follow(agent, "p1")
    assert status["state"] == "failed"
    assert status["error"]["message"].startswith("step one was cut off")
    assert calls(world) == ["do one", "undo one"]


def test_torn_last_line_is_tolerated(root: Path, world: Path) -> None:
    first = Agent(root)
    first.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    wait_for(lambda: "do one" in calls(world))
    kill_both(root, "p1")
    first.close()
    journal = root / "procedures" / "p1" / "journal.jsonl"
    with journal.open("a") as file:
        file.write('{"seq": 99, "at": "20')
    second = Agent(root)
    assert second.call("procedures.show", id="p1")["status"]["state"] == "failed"
    assert calls(world) == ["do one", "undo one"]
    assert all(json.loads(line) for line in journal.read_text().splitlines())
    second.close()


def test_reboot_is_known_by_the_boot_id(root: Path, world: Path) -> None:
    first = Agent(root)
    first.call("procedures.start", request=request("p1", world, slow={"one": 30}))
    wait_for(lambda: "do one" in calls(world))
    kill_both(root, "p1")
    first.close()
    journal = root / "procedures" / "p1" / "journal.jsonl"
    own = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal.write_text(journal.read_text().replace(own, "00000000-an-earlier-boot"))
    second = Agent(root)
    error = second.call("procedures.show", id="p1")["status"]["error"]
    assert "rebooted" in error["message"]
    second.close()


def test_unknown_kind_and_id_are_the_callers_errors(agent: Agent, world: Path) -> None:
    with pytest.raises(UsageError, match="no procedure of kind 'dance'"):
        agent.call("procedures.start", request={**request("p1", world), "kind": "dance"})
    with pytest.raises(UsageError, match="not a procedure id"):
        agent.call("procedures.start", request=request("../p1", world))


def test_watchdog_leads_a_session_of_its_own(agent: Agent, root: Path, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, waits="one"))
    watchdog, runner = wait_for(lambda: at_work(root, "p1")[1:] and at_work(root, "p1"))
    found = processes.stat(watchdog.pid)
    assert found and found.parent != agent.pid
    assert found.session not in (os.getsid(0), os.getsid(agent.pid))
    assert runner.pid != watchdog.pid


def test_full_disk_fails_the_step_and_is_still_undone_and_written_down(
    tmp_path: Path, as_root: None
) -> None:
    import subprocess

    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root)], check=True)
    agent = Agent(root)
    try:
        world = tmp_path / "world"
        agent.call("procedures.start", request=request("p1", world, fills={"one": str(root)}))
        status, seen = follow(agent, "p1")
        assert status["state"] == "failed"
        assert "No space left" in status["error"]["message"]
        assert calls(world) == ["do one", "undo one"]
        assert ("one", "undone") in [(entry["step"], entry["state"]) for entry in seen]
        with pytest.raises(GpuguardError, match=r"No space left|cannot start"):
            agent.call("procedures.start", request=request("p2", world))
    finally:
        agent.close()
        subprocess.run(["umount", str(root)], check=True)
