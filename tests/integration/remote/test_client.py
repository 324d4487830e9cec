"""The conversation with an agent, over the local transport and a real child process."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuguard.model.errors import RefusedError, UnreachableError, UsageError
from gpuguard.remote.client import AgentSession, Patience
from tests.integration.remote.agents import local_session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[AgentSession]:
    session = local_session(tmp_path)
    yield session
    session.close()


def test_answers_come_back_to_who_asked(session: AgentSession) -> None:
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        found[number] = session.call("echo", number=number)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: {"number": n} for n in range(20)}


def test_events_come_in_order_in_the_callers_thread(session: AgentSession) -> None:
    seen: list[tuple[int, str]] = []
    here = threading.current_thread().name

    def take(event: dict[str, Any]) -> None:
        seen.append((event["turn"], threading.current_thread().name))

    assert session.stream("count", take, n=50) == {"stopped": False}
    assert seen == [(turn, here) for turn in range(50)]


def test_slow_listener_delays_nobody_else(session: AgentSession) -> None:
    def listen() -> None:
        session.stream("count", lambda _: time.sleep(0.05), n=10)

    listener = threading.Thread(target=listen)
    listener.start()
    session.call("echo")
    assert listener.is_alive()
    listener.join()


def test_error_of_the_agent_keeps_its_kind(session: AgentSession) -> None:
    with pytest.raises(RefusedError) as caught:
        session.call("fail")
    assert (caught.value.message, caught.value.hint, caught.value.details) == (
        "here: no",
        "ask",
        {"a": 1},
    )


def test_large_answer_arrives_whole(session: AgentSession) -> None:
    assert session.call("big", size=7_000_000) == "x" * 7_000_000


def test_megabytes_of_stderr_stop_nothing(session: AgentSession) -> None:
    assert session.call("chatter") == "done"


def test_late_answer_is_an_error_and_is_cancelled(session: AgentSession) -> None:
    with pytest.raises(UnreachableError, match=r"no answer to sleep within 0\.2 s"):
        session.call("sleep", timeout=0.2, seconds=1)
    assert len(session.call("stopped")) == 1
    assert session.ended is None


def test_failing_listener_cancels_its_stream(session: AgentSession) -> None:
    def fail(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.stream("count", fail, n=1000, pause=0.01)
    assert len(session.call("stopped")) == 1


def test_death_of_the_agent_reaches_every_caller(session: AgentSession) -> None:
    caught: list[UnreachableError] = []

    def wait() -> None:
        try:
            session.call("sleep", seconds=30)
        except UnreachableError as error:
            caught.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.1)
    with pytest.raises(UnreachableError, match="ended with status 7: OSError: it broke"):
        session.call("die")
    waiter.join(5)
    assert len(caught) == 1
    with pytest.raises(UnreachableError, match="status 7"):
        session.call("echo")


@pytest.mark.parametrize(
    ("method", "words"), [("garbage", "no JSON"), ("oversize", "longer than 8388608 bytes")]
)
def test_broken_wire_ends_the_session(session: AgentSession, method: str, words: str) -> None:
    with pytest.raises(UnreachableError, match=words):
        session.call(method)
    assert session.ended is not None


def test_request_too_long_for_the_wire_is_our_fault(session: AgentSession) -> None:
    with pytest.raises(UsageError, match="too long"):
        session.call("echo", text="x" * 9_000_000)
    assert session.call("echo", a=1) == {"a": 1}


def test_close_frees_who_waits(session: AgentSession) -> None:
    threading.Timer(0.2, session.close).start()
    started = time.monotonic()
    with pytest.raises(UnreachableError, match="closed here"):
        session.call("sleep", seconds=30)
    assert time.monotonic() - started < 15


def test_quiet_but_living_agent_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuguard.remote.local.TICK", 0.1)
    session = local_session(tmp_path, Patience(ping_after=0.1, silence=1.5))
    assert session.call("sleep", seconds=2, timeout=20) is None
    assert session.ended is None
    session.close()
