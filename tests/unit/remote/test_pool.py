"""Many hosts side by side."""

import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from gpuguard.model.errors import GpuguardError, UnreachableError
from gpuguard.model.inventory import Host
from gpuguard.remote.client import AgentSession
from gpuguard.remote.pool import Pool
from tests.fakes import FakeSession, fake_host

HOSTS = [fake_host(f"gpu{n:03d}") for n in range(1, 9)]


class Living(FakeSession):
    ended: GpuguardError | None = None


class Openings:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.sessions: dict[str, Living] = {}

    def __call__(self, host: Host) -> AgentSession:
        self.names.append(host.name)
        if host.name == "gpu003":
            time.sleep(0.3)
            raise UnreachableError("gpu003: no answer")
        self.sessions[host.name] = Living({"ping": {"at": "now"}})
        return cast(AgentSession, self.sessions[host.name])


@pytest.fixture
def openings() -> Openings:
    return Openings()


def ping(host: Host, session: Any) -> Any:
    return session.call("ping")


def test_results_come_as_they_are_ready_and_stand_in_order(openings: Openings) -> None:
    arrived: list[str] = []
    here = threading.current_thread()

    def note(host: Host, outcome: Any) -> None:
        assert threading.current_thread() is here
        arrived.append(host.name)

    with Pool(Path("/x"), opener=openings) as pool:
        outcomes = pool.map(HOSTS, ping, note)
    assert list(outcomes) == [host.name for host in HOSTS]
    assert arrived[-1] == "gpu003" and len(arrived) == 8
    assert [name for name, outcome in outcomes.items() if not outcome.ok] == ["gpu003"]
    with pytest.raises(UnreachableError, match="gpu003: no answer"):
        outcomes["gpu003"].get()


def test_session_is_kept_and_opened_again_when_it_has_ended(openings: Openings) -> None:
    with Pool(Path("/x"), opener=openings) as pool:
        first = pool.session(HOSTS[0])
        assert pool.session(HOSTS[0]) is first
        openings.sessions["gpu001"].ended = UnreachableError("gone")
        assert pool.session(HOSTS[0]) is not first
    assert openings.names == ["gpu001", "gpu001"]


def test_many_threads_open_one_session(openings: Openings) -> None:
    with Pool(Path("/x"), opener=openings) as pool:
        pool.map([HOSTS[0]] * 20, ping)
    assert openings.names == ["gpu001"]


def test_fault_of_the_function_is_raised(openings: Openings) -> None:
    def fail(host: Host, session: Any) -> None:
        raise ZeroDivisionError

    with Pool(Path("/x"), opener=openings) as pool, pytest.raises(ZeroDivisionError):
        pool.map(HOSTS, fail)


def test_no_more_than_fanout_at_once(openings: Openings) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(host: Host, session: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    with Pool(Path("/x"), fanout=3, opener=openings) as pool:
        pool.map([host for host in HOSTS if host.name != "gpu003"], work)
    assert most == 3


def test_closed_pool_opens_nothing_and_closes_all(openings: Openings) -> None:
    pool = Pool(Path("/x"), opener=openings)
    pool.session(HOSTS[0])
    pool.close()
    pool.close()
    assert openings.sessions["gpu001"].closed
    with pytest.raises(GpuguardError, match="the pool is closed"):
        pool.session(HOSTS[1])
    assert pool.map([], ping) == {}


def test_interrupt_waits_for_nobody(openings: Openings) -> None:
    release, asked = threading.Event(), list[str]()

    def work(host: Host, session: Any) -> None:
        asked.append(host.name)
        if host.name != "gpu001":
            release.wait(20)

    def interrupt(host: Host, outcome: Any) -> None:
        raise KeyboardInterrupt

    started = time.monotonic()
    with Pool(Path("/x"), fanout=2, opener=openings) as pool, pytest.raises(KeyboardInterrupt):
        pool.map(HOSTS, work, interrupt)
    assert time.monotonic() - started < 5
    release.set()
    time.sleep(0.1)
    assert set(asked) <= {"gpu001", "gpu002", "gpu004"}
