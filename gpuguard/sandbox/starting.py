"""Starts hosts side by side, all or none of them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gpuguard.sandbox.host import PracticeHost


def start_hosts(hosts: list[PracticeHost]) -> None:
    """Start hosts side by side; if one fails, those that this call started are ended again."""
    off = [host for host in hosts if not host.init()]
    try:
        each_host(hosts, _bring_up)
    except BaseException:
        each_host(off, PracticeHost.power_off)
        raise


def _bring_up(host: PracticeHost) -> None:
    host.power_on()
    host.wait_ready()


def each_host(hosts: list[PracticeHost], act: Callable[[PracticeHost], None]) -> None:
    """Do something with every host, some of them at a time; raise the first error there was."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(act, hosts))
