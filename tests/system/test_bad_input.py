"""Whatever is wrong: the error says where, why and what next, and nothing is lost."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal
from gpuguard.sandbox.verification import read_steps
from tests.system.kit import Operator, copies, until
from tests.system.spoiling import (
    CRIU,
    MARK,
    STAGE,
    STORE,
    WORK,
    Fleet,
    before_dump,
    replaced,
    small,
)

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(180),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("bad-input", hosts=3, old_criu=True, root=tmp_path_factory.mktemp("fleet"))
    yield made
    made.down()


@pytest.fixture(scope="module")
def started(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    user = Operator(sandbox, tmp_path_factory.mktemp("operator"))
    user.run("jobs", "run", "kept", "--host", "node1", "--", *WORK, *MARK.split())
    user.run("checkpoint", "kept")
    [(_, pid)] = copies(sandbox, MARK)
    return Fleet(user, pid, user.newest("kept"))


@pytest.fixture
def world(started: Fleet) -> Iterator[Fleet]:
    yield started
    started.unharmed()


QUICK = (("connect_timeout: 5", "connect_timeout: 1"), ("timeout: 30", "timeout: 3"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("hosts:", "hosts:\n  oops", "could not find expected ':'"),
        ("connect_timeout", "conect_timeout", "did you mean connect_timeout?"),
        ("hosts:\n", "hosts:\n  node1: {address: 127.0.0.1}\n", "written twice"),
    ],
    ids=["syntax", "unknown-key", "duplicate"],
)
def test_wrong_inventory(world: Fleet, old: str, new: str, says: str) -> None:
    path = world.inventory("wrong", (old, new))
    ended = world.fails(2, "-i", path, "jobs", "list", says=(says, "gpuguard inventory check"))
    line = ended.err.removeprefix(f"error: {path}:").split(":")
    assert int(line[0]) > 1 and int(line[1]) > 0


def test_unknown_host(world: Fleet) -> None:
    says = ("nod1: no such host", "did you mean node1?")
    world.fails(2, "jobs", "run", "x", "--host", "nod1", "--", "steps", says=says)
    world.fails(2, "migrate", "kept", "--to", "nod1", "--yes", says=says)
    world.fails(2, "restore", "kept", "--to", "nod1", "--yes", says=says)
    world.fails(2, "doctor", "nod1", says=("nod1",))


def test_unknown_job(world: Fleet) -> None:
    says = ("keptt: no host knows a job of this name", "did you mean kept?")
    world.fails(2, "checkpoint", "keptt", says=says)
    world.fails(2, "migrate", "keptt", "--yes", says=says)
    world.fails(2, "restore", "keptt", "--yes", says=says)
    world.fails(2, "jobs", "stop", "keptt", says=says)


def test_host_without_power(world: Fleet) -> None:
    quick = world.inventory("quick", *QUICK)
    world.sandbox.power("node2", "off")
    try:
        listed = world.fails(3, "-i", quick, "jobs", "list", says=("node2: no ",))
        assert "kept" in listed.out
        run = ("-i", quick, "jobs", "run", "x", "--host", "node2", "--", "steps")
        world.fails(4, *run, says=("node2: no ",))
        move = ("-i", quick, "migrate", "kept", "--to", "node2", "--yes")
        world.fails(5, *move, says=("node2: it does not answer", "gpuguard doctor node2"))
    finally:
        world.sandbox.power("node2", "on")


def test_host_that_refuses(world: Fleet) -> None:
    with replaced(world.sandbox, "node2", "/usr/sbin/sshd", None):
        world.sandbox.run("node2", ["pkill", "-o", "-x", "sshd"])
        listed = world.fails(4, "jobs", "list", "-w", "node2", says=("Connection refused",))
        assert "no jobs" not in listed.err
        world.fails(5, "migrate", "kept", "--to", "node2", "--yes", says=("refused",))
    answers(world.user, "node2")


def answers(user: Operator, host: str) -> None:
    until(lambda: user.try_("jobs", "list", "-w", host).code == 0, 15, f"{host}'s answer")


def test_host_that_hangs_before_and_after_the_login(world: Fleet) -> None:
    sandbox, quick = world.sandbox, world.inventory("quick", *QUICK)
    sandbox.run("node2", ["pkill", "-STOP", "-o", "-x", "sshd"])
    try:
        listing = ("-i", quick, "jobs", "list", "-w", "node2")
        world.fails(4, *listing, says=("node2: the host accepted the connection, then hung",))
    finally:
        sandbox.run("node2", ["pkill", "-CONT", "-o", "-x", "sshd"])
    sandbox.run("node2", ["cp", "/root/.bashrc", "/root/.bashrc.away"])
    sandbox.run("node2", ["tee", "/root/.bashrc"], stdin="sleep 30\n")
    try:
        move = ("-i", quick, "migrate", "kept", "--to", "node2", "--yes")
        world.fails(5, *move, says=("node2", "hung at the start of the agent"))
    finally:
        sandbox.run("node2", ["mv", "/root/.bashrc.away", "/root/.bashrc"])


def test_host_key_unknown_or_changed(world: Fleet) -> None:
    known = world.sandbox.inventory.with_name("known_hosts").read_text().splitlines()
    names = [line.split()[0] for line in known]
    keys = [line.split()[1:] for line in known]
    swapped = zip(names, [keys[1], keys[0], keys[2]], strict=True)
    path = world.sandbox.inventory.with_name("swapped")
    path.write_text("".join(f"{name} {' '.join(key)}\n" for name, key in swapped))
    start = ("jobs", "run", "x", "--host", "node2", "--", "steps")
    for file, says in (
        ("nowhere", ("node2: the host key", "is unknown", "gpuguard hosts trust node2")),
        ("swapped", ("node2: the host key", "has CHANGED", "hosts trust --replace node2")),
    ):
        changed = world.inventory(file, ("./known_hosts", f"./{file}"))
        world.fails(5, "-i", changed, *start, says=says)


def test_sudo_refused(world: Fleet) -> None:
    guest = world.inventory("guest", ("user: root", "user: guest"))
    world.fails(4, "-i", guest, "jobs", "list", says=("node1: user guest may not become root",))
    ops = world.inventory("ops", ("user: root", "user: ops"))
    assert "kept" in world.user.run("-i", ops, "jobs", "list").out


def test_host_without_python(world: Fleet) -> None:
    with replaced(world.sandbox, "node2", "/usr/bin/python3", None):
        world.fails(4, "jobs", "list", "-w", "node2", says=("node2: there is no python3",))


def test_criu_that_cannot_be_used(world: Fleet) -> None:
    sandbox = world.sandbox
    with replaced(sandbox, "node1", CRIU, None):
        missing = ("node1: checkpoint, step preflight", "CRIU is not installed", "CRIU 4.2")
        world.fails(5, "checkpoint", "kept", says=missing)
    script = f'[ "$1" = --version ] && exec {CRIU}.away --version\necho no such feature; exit 1'
    with replaced(sandbox, "node1", CRIU, script):
        assert "criu-check" in world.user.run("doctor", "node1", expect=1).out
        says = ("node1: checkpoint, step dump: CRIU could not save job kept", "the job runs on")
        world.fails(1, "checkpoint", "kept", says=says)
        listed = world.user.run("ops", "list", "-n", "1", "-o", "json").json["items"][0]
        assert (listed["state"], listed["exit_code"]) == ("failed", 1)
        assert "could not save" in listed["error"]["message"]
    with replaced(sandbox, "node2", CRIU, script):
        says = ("node2: restore, step restore: CRIU could not restore job kept", "goes on on node1")
        world.fails(1, "migrate", "kept", "--to", "node2", "--yes", says=says)
    world.fails(5, "migrate", "kept", "--to", "node3", "--yes", says=("node3: CRIU 4.1.1",))
    world.run_job("aged", host="node3")
    world.fails(5, "checkpoint", "aged", says=("node3: ", "CRIU 4.1.1", "4.2 is needed"))
    world.user.run("jobs", "stop", "aged")


def test_store_or_stage_that_cannot_be_used(world: Fleet) -> None:
    sandbox, save = world.sandbox, ("checkpoint", "kept")
    with small(sandbox, "node1", STAGE, "64k"):
        world.fails(5, *save, says=("node1: ", f"the stage {STAGE}", "the checkpoint may need"))
    with small(sandbox, "node1", STORE, "64k"):
        world.fails(5, *save, says=(f"{STORE} is not the store", "not mounted", "stores.json"))
        assert world.user.newest("kept") >= world.good  # another host is asked
    sandbox.run("node1", ["mount", "--bind", "-o", "ro", STORE, STORE])
    try:
        world.fails(5, *save, says=("node1: ", STORE, "Read-only file system"))
    finally:
        sandbox.run("node1", ["umount", STORE])
    sandbox.run("node2", ["mount", "--bind", "-o", "ro", STORE, STORE])
    try:
        says = ("node2: ", "read-only")
        world.fails(5, "migrate", "kept", "--to", "node2", "--yes", says=says)
    finally:
        sandbox.run("node2", ["umount", STORE])


def test_full_store(world: Fleet) -> None:
    """A store of its own for one job, so that it is full from the start."""
    sandbox = world.sandbox
    tiny = world.inventory("tiny", ("shared: {path: /srv/gpuguard}", "shared: {path: /srv/tiny}"))
    sandbox.run("node1", ["mkdir", "/srv/tiny"])
    with small(sandbox, "node1", "/srv/tiny", "1m"):
        world.user.run("-i", tiny, "jobs", "run", "tiny", "--host", "node1", "--", *WORK)
        says = ("node1: ", "the store /srv/tiny", "MiB free")
        world.fails(5, "-i", tiny, "checkpoint", "tiny", says=says)
    sandbox.run("node1", ["rmdir", "/srv/tiny"])
    says = ("node1: ", "the store /srv/tiny cannot be used: it does not exist", "mount it")
    world.fails(5, "-i", tiny, "checkpoint", "tiny", says=says)
    world.user.run("jobs", "stop", "tiny")
    world.user.run("jobs", "forget", "tiny")


def test_stage_that_fills_up_in_the_middle(world: Fleet) -> None:
    fill = f"dd if=/dev/zero of={STAGE}/fill bs=64k 2>/dev/null"
    with (
        small(world.sandbox, "node1", STAGE, "60m"),
        replaced(world.sandbox, "node1", CRIU, before_dump(fill)),
    ):
        says = (f"step dump: CRIU could not save job kept: the stage {STAGE} is full", "runs on")
        world.fails(1, "checkpoint", "kept", says=says)
        assert world.sandbox.run("node1", ["ls", "-A", STAGE]).stdout == "fill\n"


def test_job_that_ends_while_it_is_saved_comes_back_on_the_same_host(world: Fleet) -> None:
    world.run_job("brief")
    world.user.run("checkpoint", "brief")
    good = world.user.newest("brief")
    with replaced(world.sandbox, "node1", CRIU, before_dump('kill -9 "$3"; sleep 1')):
        says = ("node1: ", "job brief ended while it was being saved", "gpuguard restore brief")
        world.fails(1, "checkpoint", "brief", says=says)
    gone = ("brief: it does not run: node1 says exited", "gpuguard restore brief")
    world.fails(5, "checkpoint", "brief", says=gone)
    world.fails(5, "migrate", "brief", "--yes", says=gone)
    assert world.user.newest("brief") == good
    world.user.run("restore", "brief", "--to", "node1", "--yes")
    assert world.user.jobs("brief") == {"node1": "running"}
    assert read_steps(world.user.log("brief")).findings == []
    world.user.run("jobs", "stop", "brief")


def test_job_that_cannot_start(world: Fleet) -> None:
    start = ("jobs", "run", "x", "--host", "node2")
    taken = ("jobs", "run", "kept", "--host", "node2", "--", "steps")
    world.fails(5, *taken, says=("node1: a job kept is running there",))
    world.fails(1, *start, "--", "stepss", says=("node2: ", "command not found: stepss"))
    world.fails(1, *start, "--cwd", "/no/where", "--", "steps", says=("node2: ", "/no/where"))
    world.fails(2, *start, "--user", "nobody9", "--", "steps", says=("node2: ", "nobody9"))
    assert world.user.jobs("x") == {}


def test_checkpoint_that_is_not_there(world: Fleet) -> None:
    other = "20200101T000000Z-abcdef"
    says = (other, "gpuguard checkpoints list kept")
    world.fails(2, "restore", "kept", "--from", "bogus", "--yes", says=("'bogus' is no id",))
    world.fails(5, "restore", "kept", "--from", other, "--yes", says=says)
    world.fails(2, "checkpoints", "show", "kept", other, says=says)
    world.fails(2, "checkpoints", "verify", "kept", other, says=says)
    world.fails(2, "checkpoints", "rm", "kept", other, "--yes", says=says)
    world.run_job("young", host="node2")
    world.user.run("jobs", "stop", "young")
    none = (f"young: there is no checkpoint of it in {STORE}",)
    world.fails(5, "restore", "young", "--yes", says=none)


def test_restore_of_a_job_that_runs(world: Fleet) -> None:
    says = ("kept: it is running on node1; a second copy would be made", "gpuguard migrate kept")
    world.fails(5, "restore", "kept", "--to", "node2", "--yes", says=says)


def test_file_beyond_the_limit_is_told_and_missed_on_the_target(world: Fleet) -> None:
    strict = world.inventory("strict", ("capture_limit: 64MiB", "capture_limit: 16KiB"))
    job = ("--", *WORK, "--plain-log", "/srv/large.log")
    world.user.run("-i", strict, "jobs", "run", "large", "--host", "node1", *job)
    world.sandbox.run("node1", ["sh", "-c", "head -c 200000 /dev/zero >>/srv/large.log"])
    until(lambda: copies(world.sandbox, "large.log") != [], what="the job")
    told = world.user.run("checkpoint", "large")
    assert "warning: node1: large: /srv/large.log" in told.err
    assert "larger than the capture limit" in told.err
    says = ("node2: /srv/large.log is missing",)
    world.fails(5, "migrate", "large", "--to", "node2", "--yes", says=says)
    world.user.run("jobs", "stop", "large")


def test_tail_of_a_file_that_grew_is_kept_aside(world: Fleet) -> None:
    world.run_job("grown", "--log", "/srv/grown.log")
    until(lambda: copies(world.sandbox, "grown.log") != [], what="the job")
    world.user.run("checkpoint", "grown", "--stop")
    world.sandbox.run("node1", ["sh", "-c", "echo precious words >>/srv/grown.log"])
    world.user.run("restore", "grown", "--to", "node1", "--yes")
    found = world.sandbox.run("node1", ["sh", "-c", "grep -rl 'precious words' /srv/grown*"])
    assert found.stdout.splitlines() not in ([], ["/srv/grown.log"])
    text = world.sandbox.path("node1", "/srv/grown.log").read_text()
    assert "precious" not in text
    assert read_steps(text).findings == []
    world.user.run("jobs", "stop", "grown")


def test_connections_where_the_policy_refuses_them(world: Fleet) -> None:
    refuse = world.inventory("refuse", ("tcp: close", "tcp: refuse"))
    job = ("--", *WORK, "--port", "7102", "--connect", "self")
    world.user.run("-i", refuse, "jobs", "run", "linked", "--host", "node2", *job)
    until(lambda: "7102" in world.sandbox.run("node2", ["ss", "-Htn"]).stdout, what="a connection")
    says = ("node2: ", "open TCP connections", "127.0.0.1:7102")
    world.fails(5, "checkpoint", "linked", says=says)
    world.user.run("jobs", "stop", "linked")


def test_adopted_jobs_that_cannot_be_saved_are_refused_before_they_freeze(world: Fleet) -> None:
    sandbox = world.sandbox
    segment = sandbox.start_workload("node2", ["--tick", "0.05", "--shm", "--port", "7103"])
    until(lambda: "7103" in sandbox.run("node2", ["ss", "-Htln"]).stdout, what="the segment")
    world.user.run("jobs", "adopt", "segment", "--host", "node2", "--pid", str(segment))
    says = ("node2: checkpoint, step preflight", "System V shared memory", "gpuguard jobs run")
    world.fails(5, "checkpoint", "segment", says=says)
    script = 'setsid script -qc "steps --tick 0.05 --port 7104" /dev/null >/dev/null 2>&1 &'
    sandbox.run("node2", ["sh", "-c", f"sleep 60 2>/dev/null | {script}"])
    until(lambda: copies(sandbox, "--port 7104") != [], what="the job on a terminal")
    terminal = copies(sandbox, "--port 7104")[-1][1]
    world.user.run("jobs", "adopt", "terminal", "--host", "node2", "--pid", str(terminal))
    world.fails(5, "checkpoint", "terminal", says=("node2: ", "it uses the terminal /dev/pts/"))
    adopt = ("jobs", "adopt", "none", "--host", "node2", "--pid", "4000000")
    world.fails(2, *adopt, says=("node2: there is no process 4000000",))
    world.user.run("jobs", "stop", "segment")
    world.user.run("jobs", "stop", "terminal")


def test_stranger_in_the_namespaces(world: Fleet) -> None:
    supervisor = world.user.run("jobs", "show", "kept", "-o", "json").json["supervisor"]["pid"]
    enter = f"nsenter -t {supervisor} -p -m sleep 60 </dev/null >/dev/null 2>&1 & echo $!"
    stranger = world.sandbox.run("node1", ["sh", "-c", enter]).stdout.strip()
    try:
        says = ("node1: ", "(sleep", "lives in its namespaces but is not of its tree")
        world.fails(5, "checkpoint", "kept", says=says)
    finally:
        world.sandbox.run("node1", ["pkill", "-P", stranger])


def test_second_operator_is_told_who_is_at_work_and_ctrl_c_of_the_first(world: Fleet) -> None:
    second = Operator(world.sandbox, world.user.state / "second")
    wait = before_dump("until [ -e /run/go ]; do sleep 0.05; done")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with replaced(world.sandbox, "node1", CRIU, wait):
            first = world.user.start("checkpoint", "kept")
            assert first.stdout is not None and first.stderr is not None
            with first.stdout, first.stderr:
                assert "preflight" in first.stderr.readline()
                told = second.run("checkpoint", "kept", expect=75)
                assert "node1: job kept is held by checkpoint checkpoint-" in told.err
                assert " since 20" in told.err
                os.kill(first.pid, number)
                assert first.wait(timeout=30) == code
            world.sandbox.run("node1", ["touch", "/run/go"])
            until(lambda: second.try_("checkpoint", "kept").code == 0, 20, "the end of the first")
            world.sandbox.run("node1", ["rm", "/run/go"])
        item = world.user.run("ops", "list", "-n", "1", "-o", "json").json["items"][0]
        assert item["state"] == "interrupted"


def test_reader_that_goes_away(world: Fleet) -> None:
    argv = world.user.argv("jobs", "logs", "kept", "-n", "1000000")
    with subprocess.Popen(
        argv, env=world.user.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reading:
        assert reading.stdout is not None and reading.stderr is not None
        reading.stdout.close()
        assert reading.stderr.read() == b""
    assert reading.returncode in (0, 1)


def test_nobody_to_ask_and_errors_as_json(world: Fleet) -> None:
    world.fails(2, "migrate", "kept", "--to", "node2", says=("needs a yes", "add --yes"))
    for words, code, kind in (
        (("migrate", "kept", "--to", "node2"), 2, "usage"),
        (("restore", "kept", "--yes"), 5, "refused"),
        (("checkpoint", "keptt"), 2, "usage"),
    ):
        ended = world.user.run(*words, "-o", "json", expect=code)
        told = json.loads(ended.out)
        assert told["schema"] == "gpuguard.error/1"
        assert (told["error"]["kind"], told["code"]) == (kind, code)
        assert told["error"]["hint"]
