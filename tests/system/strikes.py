"""What is struck while procedures are parked, and what is let go on."""

import signal
import threading
import time
from collections.abc import Callable

from tests.system.crew import STORE, Crew
from tests.system.cutting import STATE, agents_of, kill, processes_of, send
from tests.system.waves import Case, Heal, Strike

_CUT_SECONDS = 18.0  # longer than a silent link is believed in
_STAGE = f"{STATE}/stage"


def strike_runner(crew: Crew, cases: list[Case]) -> None:
    """Kill every runner; its watchdog settles the procedure."""
    kill(case.caught.runner for case in cases if case.caught)


def strike_both(crew: Crew, cases: list[Case]) -> None:
    """Kill watchdog and runner: nobody on the host is left to settle anything."""
    for case in cases:
        if case.caught:
            kill((case.caught.watchdog, case.caught.runner))


def strike_watchdog(crew: Crew, cases: list[Case]) -> None:
    """Kill the watchdog alone: the runner goes on to the end."""
    kill(case.caught.watchdog for case in cases if case.caught)
    _let_go(cases)


def strike_agent(crew: Crew, cases: list[Case]) -> None:
    """Kill every agent on the host, and with it every link to it."""
    for host in _hosts(cases):
        kill(agents_of(crew.sandbox, host))
    _let_go(cases)


def strike_operator(crew: Crew, cases: list[Case]) -> None:
    """Kill every operator's command; the hosts go on by themselves."""
    kill(case.command.pid for case in cases if case.command)
    crew.typist.wait([case.command for case in cases if case.command])
    _let_go(cases)


def strike_power(crew: Crew, cases: list[Case]) -> None:
    """Pull the plug of the host; it comes back a moment later."""
    for host in _hosts(cases):
        crew.sandbox.power(host, "off")
        time.sleep(0.2)
        crew.sandbox.power(host, "on")


def strike_cable(crew: Crew, cases: list[Case]) -> Heal:
    """Take the host off the network, until its links count as dead, and let the runners go on."""
    hosts = _hosts(cases)
    for host in hosts:
        crew.sandbox.cut(host)
    _let_go(cases)
    timers = [threading.Timer(_CUT_SECONDS, crew.sandbox.heal, (host,)) for host in hosts]
    for timer in timers:
        timer.start()

    def wait_for_cables() -> None:
        for timer in timers:
            timer.join()

    return wait_for_cables


def strike_criu(crew: Crew, cases: list[Case]) -> None:
    """Kill every CRIU on the host in the middle of its dump."""
    for host in _hosts(cases):
        listed = processes_of(crew.sandbox, host).items()
        found = [pid for pid, words in listed if words and words[0].endswith("criu")]
        assert found, f"no CRIU at work on {host}"
        kill(found)
    _let_go(cases)


def strike_supervisor(crew: Crew, cases: list[Case]) -> None:
    """Kill the supervisors of the jobs: the kernel ends the jobs with them."""
    for case in cases:
        assert case.caught is not None
        status = f"{STATE}/jobs/{case.job}/status"
        listed = processes_of(crew.sandbox, case.caught.host).items()
        found = [pid for pid, words in listed if status in words and "unshare" not in words[0]]
        assert found, f"{case.job} has no supervisor on {case.caught.host}"
        kill(found)
    _let_go(cases)


def _cover(path: str, options: str) -> Strike:
    """Return a strike that hides `path` under an empty file system of its own."""

    def strike(crew: Crew, cases: list[Case]) -> Heal:
        hosts = _hosts(cases)
        for host in hosts:
            crew.sandbox.run(host, ["mount", "-t", "tmpfs", "-o", options, "struck", path])
        _let_go(cases)
        return _on_all(crew, hosts, ["umount", "-l", path])

    return strike


def strike_full_store(crew: Crew, cases: list[Case]) -> Heal:
    """Have no room left in the jobs' folders of the store."""
    heals = []
    for case in cases:
        assert case.caught is not None
        path = f"{STORE}/{case.job}"
        small = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "struck", path]
        crew.sandbox.run(case.caught.host, small)
        heals.append(_on_all(crew, [case.caught.host], ["umount", "-l", path]))
    _let_go(cases)

    def heal_all() -> None:
        for heal in heals:
            heal()

    return heal_all


def strike_read_only_store(crew: Crew, cases: list[Case]) -> Heal:
    """Make the store read-only for the host."""
    hosts = _hosts(cases)
    # A mount of its own on top: the one below may be busy, with files open for writing.
    _on_all(crew, hosts, ["mount", "--bind", STORE, STORE])()
    _on_all(crew, hosts, ["mount", "-o", "remount,bind,ro", STORE])()
    _let_go(cases)
    return _on_all(crew, hosts, ["umount", "-l", STORE])


def _on_all(crew: Crew, hosts: list[str], argv: list[str]) -> Callable[[], None]:
    def run() -> None:
        for host in hosts:
            crew.sandbox.run(host, argv)

    return run


def _hosts(cases: list[Case]) -> list[str]:
    return sorted({case.caught.host for case in cases if case.caught})


def _let_go(cases: list[Case]) -> None:
    for case in cases:
        if case.caught:
            send(case.caught.runner, signal.SIGCONT)


STRIKES: dict[str, Strike] = {
    "runner": strike_runner,
    "runner+watchdog": strike_both,
    "watchdog": strike_watchdog,
    "agent": strike_agent,
    "operator": strike_operator,
    "operator, abort": strike_operator,
    "power": strike_power,
    "cable": strike_cable,
    "criu": strike_criu,
    "supervisor": strike_supervisor,
    "stage full": _cover(_STAGE, "size=64k,mode=700"),
    "stage read-only": _cover(_STAGE, "ro,mode=700"),
    "store full": strike_full_store,
    "store read-only": strike_read_only_store,
    "store gone": _cover(STORE, "size=64k,mode=700"),
}
