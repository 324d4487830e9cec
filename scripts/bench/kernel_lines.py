"""How fast kernel lines are read, merging included, and how fast a number is explained."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Row, wall

from gpuguard.health.report import Report

_RUNS = 5
_PIECE = 1 << 18
_ORDINARY = 1_000_000  # lines
_FAULTS = 200_000
_EXPLAIN_LIMIT = 0.200
_LIMIT = 1.0
_TALK = (
    "audit: type=1400 audit(1700000000.123:456): operation=open profile=unconfined",
    "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode. Quota mode: none.",
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "docker0: port 1(veth123) entered blocking state",
    "systemd[1]: Started Session 123 of User root.",
)
_CODES = (13, 31, 43, 45, 63, 79, 94, 119)


def rows(programs: Path) -> Iterator[Row]:
    """Yield an ordinary log with a few faults, a log of nothing but faults, and one number."""
    yield _row("an ordinary kernel log", _ORDINARY, _ordinary())
    yield _row("nothing but Xids, merged", _FAULTS, _faults())
    command = (str(programs / "gpuguard"), "xid", "79")
    seconds = [wall(command) for _ in range(_RUNS + 1)][1:]
    yield Row("`xid 79`", seconds, "-", limit=_EXPLAIN_LIMIT)


def _row(what: str, lines: int, log: bytes) -> Row:
    seconds = [_read(log, lines) for _ in range(_RUNS + 1)][1:]
    return Row(f"{lines:,} lines of {what}, CPU time", seconds, "-", limit=_LIMIT)


def _read(log: bytes, lines: int) -> float:
    begin = time.process_time()
    report = Report()
    for place in range(0, len(log), _PIECE):
        report.log.feed(log[place : place + _PIECE])
    report.log.close()
    seconds = time.process_time() - begin
    if report.log.counts.lines != lines:
        raise RuntimeError(f"{report.log.counts.lines} of {lines} lines were read")
    return seconds


def _ordinary() -> bytes:
    dice = random.Random(1)  # noqa: S311
    texts = (
        _fault(number, dice) if number % 1000 == 0 else dice.choice(_TALK)
        for number in range(_ORDINARY)
    )
    return _log(texts)


def _faults() -> bytes:
    dice = random.Random(2)  # noqa: S311
    return _log(_fault(number, dice) for number in range(_FAULTS))


def _fault(number: int, dice: random.Random) -> str:
    gpu, code, pid = 0x10 + number % 8, dice.choice(_CODES), 31000 + number % 64
    return (
        f"NVRM: Xid (PCI:0000:{gpu:02x}:00): {code}, pid={pid}, name=python3, Ch {number % 512:08x}"
    )


def _log(texts: Iterator[str]) -> bytes:
    lines = (f"[{100 + number / 1e4:12.6f}] {text}" for number, text in enumerate(texts))
    return ("\n".join(lines) + "\n").encode()
