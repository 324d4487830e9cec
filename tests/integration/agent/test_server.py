"""The node's side of the wire, over real pipes."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gpuguard
from gpuguard.agent.server import MAX_LINE
from gpuguard.model.errors import UsageError
from tests.integration.agent.kit import Agent, at_work, release, request, wait_for
from tests.integration.test_bundle import old_python

MAIN = Path(gpuguard.__file__).parent / "agent" / "main.py"
OLD = old_python()


def test_hello_says_who_answers(agent: Agent) -> None:
    assert agent.hello["protocol"] == 1
    assert agent.hello["version"] == gpuguard.__version__
    assert agent.hello["pid"] == agent.pid
    assert agent.hello["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (agent.hello["recovered"], agent.hello["fenced"]) == ([], [])


def test_host_info_has_every_fact_of_the_protocol(agent: Agent, root: Path) -> None:
    info = agent.call("host.info")
    assert set(info) == {
        "hostname",
        "boot_id",
        "kernel",
        "arch",
        "python",
        "criu",
        "cpu_flags",
        "memory_total",
        "memory_available",
        "signing_key",
        "cordons",
        "at",
    }
    assert info["memory_total"] > info["memory_available"] > 0
    assert info["signing_key"].startswith("ssh-ed25519 ")
    assert agent.call("host.info")["signing_key"] == info["signing_key"]
    assert (root / "keys" / "manifest_ed25519").stat().st_mode & 0o777 == 0o600


def test_wrong_params_are_the_callers_error(agent: Agent) -> None:
    for method, params in (
        ("nothing", {}),
        ("jobs.show", {}),
        ("jobs.show", {"name": 7}),
        ("jobs.run", {"spec": {"name": "x"}}),
        ("procedures.start", {"request": {"id": "x"}}),
    ):
        with pytest.raises(UsageError):
            agent.call(method, **params)


def test_a_slow_request_delays_no_other(agent: Agent, world: Path) -> None:
    agent.call("procedures.start", request=request("p1", world, waits="one"))
    watch = agent.ask("procedures.watch", id="p1", after_seq=0)
    agent.call("ping")
    release(world)
    while "result" not in (message := agent.answer(watch)):
        assert message["event"]["entry"]
    assert message["result"]["state"] == "done"


@pytest.mark.parametrize(
    "line",
    [b"garbage\n", b"[]\n", b'{"id": 1}\n', b"x" * (MAX_LINE + 2)],
    ids=["no-json", "no-object", "no-method", "oversize"],
)
def test_unreadable_request_ends_the_session(agent: Agent, line: bytes) -> None:
    try:
        agent.stdin.write(line)
        agent.stdin.flush()
    except BrokenPipeError:
        pass  # it stopped reading in the middle of the oversize line
    assert agent.answer(None)["error"]["kind"] == "usage"


def test_agent_ends_when_stdin_ends(root: Path) -> None:
    agent = Agent(root)
    began = time.monotonic()
    assert agent.close() == 0
    assert time.monotonic() - began < 10


def test_a_change_under_way_is_finished_when_stdin_ends(
    root: Path, world: Path, as_root: None
) -> None:
    agent = Agent(root)
    spec = {"name": "train", "uid": "u", "command": ["sleep", "60"]}
    agent.ask("jobs.run", spec=spec, request_id="r1")
    assert agent.close() == 0
    job = json.loads((root / "jobs" / "train" / "job.json").read_text())
    assert job["root"]["pid"]


def test_closed_stdout_ends_the_agent_but_no_procedure(root: Path, world: Path) -> None:
    ask = {
        "id": 1,
        "method": "procedures.start",
        "params": {"request": request("p1", world, waits="one")},
    }
    program = Path(__file__).with_name("practice_agent.py")
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-I", str(program), "serve"],
        stdin=subprocess.PIPE,
        stdout=writer,
        env={**os.environ, "GPUGUARD_NODE_ROOT": str(root)},
    )
    os.close(writer)
    os.read(reader, 10_000)
    os.close(reader)
    assert process.stdin
    process.stdin.write(json.dumps(ask).encode() + b"\n")
    process.stdin.flush()
    wait_for(lambda: at_work(root, "p1"))
    release(world)
    wait_for(lambda: (root / "procedures" / "p1" / "result.json").exists())
    process.stdin.close()
    assert process.wait(10) in (0, 1)
    result = json.loads((root / "procedures" / "p1" / "result.json").read_text())
    assert result["state"] == "done"


def test_a_stray_print_does_not_reach_the_wire(root: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gpuguard.agent import methods, server\n"
        "import gpuguard.agent.host.methods as h\n"
        "h.ping = lambda params, emit: print('stray')\n"
        "server.serve()\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(MAIN.parents[2])],
        input=b'{"id": 1, "method": "ping"}\n',
        capture_output=True,
        timeout=20,
        check=False,
        env={**os.environ, "GPUGUARD_NODE_ROOT": str(root)},
    )
    assert [next(iter(json.loads(line))) for line in done.stdout.splitlines()] == ["hello", "id"]


def test_two_agents_make_one_signing_key(root: Path) -> None:
    agents = [Agent(root) for _ in range(3)]
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda a=agent: keys.append(a.call("host.info")["signing_key"]))
        for agent in agents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for agent in agents:
        agent.close()
    private = root / "keys" / "manifest_ed25519"
    public = subprocess.run(["ssh-keygen", "-y", "-f", private], capture_output=True, check=True)
    wanted = public.stdout.decode().split()[1]
    assert {key.split()[1] for key in keys} == {wanted}


@pytest.mark.skipif(OLD is None, reason="no Python 3.9 on this machine")
def test_agent_works_under_python_3_9(root: Path, world: Path, as_root: None) -> None:
    agent = Agent(root, str(OLD))
    assert agent.hello["python"].startswith("3.9.")
    spec = {"name": "train", "uid": "u", "command": ["sh", "-c", "exit 3"]}
    agent.call("jobs.run", spec=spec, request_id="r1")
    wait_for(lambda: agent.call("jobs.show", name="train")["exit_code"] == 3)
    agent.call("procedures.start", request=request("p1", world, fails="two"))
    assert agent.call("procedures.watch", id="p1")["state"] == "failed"
    agent.close()
