"""The operator's side is killed, interrupted or cut off in the middle of a move of a real job."""

import os
import re
import signal
import threading
from collections.abc import Iterator

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal
from gpuguard.sandbox.verification import read_steps
from tests.system.kit import Ended, Operator

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(180),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
LIVE = ("running", "stopped")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("operator", hosts=2, root=tmp_path_factory.mktemp("fleet"))
    yield made
    made.down()


@pytest.fixture(scope="module")
def user(hosts: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    made = Operator(hosts, tmp_path_factory.mktemp("operator"))
    made.run("jobs", "run", "cut", "--host", "node1", "--", "steps", "--tick", "0.05")
    made.run("checkpoint", "cut")
    return made


def move_until(user: Operator, point: str, number: signal.Signals | None = None) -> Ended:
    """Start a move, send a signal when its progress shows `point`, return how it ended."""
    moving = user.start("migrate", "cut", "--yes")
    assert moving.stderr is not None
    said = []
    for line in moving.stderr:
        said.append(line)
        if re.search(point, line):
            if number is not None:
                os.kill(moving.pid, number)
            break
    else:
        pytest.fail(f"{point} never came: {''.join(said)}")
    out, rest = moving.communicate(timeout=120)
    return Ended(moving.returncode, out, "".join(said) + rest)


def unbroken(user: Operator) -> None:
    """Check that one copy is live and that not one step was lost or done twice."""
    states = list(user.jobs("cut").values())
    assert [state for state in states if state in LIVE] == ["running"]
    report = read_steps(user.log("cut"))
    assert report.findings == []
    assert report.repeated == 0


@pytest.mark.parametrize(
    ("point", "moved"),
    [
        (r"cut dump \d", False),
        (r"cut verify \d", False),
        (r"cut restore \d", False),
        (r"cut end \d", True),
        (r"cut claim \d", True),
    ],
)
def test_after_kill_9_the_next_command_settles_the_move(
    user: Operator, point: str, moved: bool
) -> None:
    before = next(host for host, state in user.jobs("cut").items() if state == "running")
    assert move_until(user, point, signal.SIGKILL).code == -signal.SIGKILL
    user.run("checkpoint", "cut")
    after = next(host for host, state in user.jobs("cut").items() if state == "running")
    assert (after != before) is moved
    unbroken(user)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
@pytest.mark.parametrize("point", [r"cut dump \d", r"cut verify \d"])
def test_ctrl_c_before_the_handover_puts_the_job_back(
    user: Operator, point: str, number: signal.Signals, code: int
) -> None:
    before = user.jobs("cut")
    ended = move_until(user, point, number)
    assert ended.code == code, ended.err
    assert user.jobs("cut") == before
    assert user.run("ops", "list", "-n", "1", "-o", "json").json["items"][0]["state"] == (
        "interrupted"
    )
    unbroken(user)


def test_ctrl_c_after_the_handover_is_too_late(user: Operator) -> None:
    before = user.jobs("cut")
    ended = move_until(user, r"cut give-away \d", signal.SIGINT)
    assert ended.code == 130, ended.err
    assert "too late to stop" in ended.err
    assert user.jobs("cut") != before
    assert user.run("ops", "list", "-n", "1", "-o", "json").json["items"][0]["state"] == "done"
    unbroken(user)


@pytest.mark.parametrize("point", [r"cut preflight \d", r"cut verify \d"])
def test_a_link_that_is_cut_and_heals_only_costs_time(
    user: Operator, hosts: Sandbox, point: str
) -> None:
    healers: list[threading.Timer] = []
    before = next(host for host, state in user.jobs("cut").items() if state == "running")
    host = before if "preflight" in point else next(h for h in ("node1", "node2") if h != before)
    said = []
    with user.start("migrate", "cut", "--yes") as moving:
        assert moving.stderr is not None
        for line in moving.stderr:
            said.append(line)
            if not healers and re.search(f"{host} {point}", line):
                hosts.cut(host)
                healers.append(threading.Timer(20.0, hosts.heal, (host,)))
                healers[0].start()
    assert moving.returncode == 0, "".join(said)
    healers[0].join()
    assert " lost: " in "".join(said)
    unbroken(user)
