"""A log's reader: whatever comes, nothing raises, no real line is lost, none is made up."""

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuguard.health.kernel_log import KernelLog, Tellers
from gpuguard.health.report import Report, read

unhurried = settings(deadline=None)
PREFIXES = (
    "",
    "[ 12345.678901] ",
    "[Sun Feb 23 16:24:18 2025] ",
    "May 19 07:08:57 node1 kernel: ",
    "4,1227,437812449932,-;",
    "kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ",
)
TAILS = (
    "pid=5, name=python, Ch 00000008",
    "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "Contained: SM (0x1). RST: No, D-RST: No",
    "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0)",
    "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000)",
)
faults = st.builds(
    lambda prefix, bus, code, tail: (
        f"{prefix}NVRM: Xid (PCI:0000:{bus:02x}:00): {code}, {tail}",
        (f"0000:{bus:02x}:00.0", code),
    ),
    st.sampled_from(PREFIXES),
    st.integers(0, 255),
    st.integers(1, 200),
    st.sampled_from(TAILS),
)
words = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=80)
noise = words.filter(lambda text: "Xid" not in text and not text.lstrip().startswith("{"))
anything = st.one_of(
    st.binary(max_size=400),
    st.lists(
        st.sampled_from(
            [
                *(b"NVRM: Xid (PCI:", b"0000:3b:00", b"): ", b"79", b", pid=", b"name=", b"(0x1"),
                *(b"154, GPU recovery action changed from 0x0 (None) to ", b"0x1", b"\n", b"{"),
                *(b"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, ", b"Data {", b"Severity 1"),
                *(b"4,1,2,-;", b"\\x", b"[ 1.5] ", b"message repeated 9 times: [ ", b"\x00\xff"),
                *(b'{"MESSAGE":', b'"NVRM: ', b"INFO: task a:1 blocked for more than 120 seconds."),
                *(b"pcieport 0000:00:02.0: AER: Corrected error received: id=1", b"Link 3 "),
                *(b"NVRM: The NVIDIA GPU 0000:b3:00.0", b" 145, RLW_REMAP Fatal XC0 i0 Link 1 ("),
            ]
        ),
        max_size=30,
    ).map(b"".join),
)


def seen(found: dict[str, Any]) -> Counter[tuple[str, int]]:
    return Counter((event["pci"], event["code"]) for event in found["events"])


@unhurried
@given(anything, st.sampled_from([None, "550.127.05", "580.65.06", "?"]))
def test_nothing_raises_and_all_of_it_prints(data: bytes, driver: str | None) -> None:
    json.dumps(read([data], driver).to_dict())


@unhurried
@given(anything, st.integers(1, 50))
def test_pieces_change_nothing(data: bytes, size: int) -> None:
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    assert read(pieces).to_dict() == read([data]).to_dict()


@unhurried
@given(st.lists(st.one_of(faults, noise), max_size=12))
def test_real_lines_are_found_among_any_others(lines: list[Any]) -> None:
    text = "\n".join(line[0] if isinstance(line, tuple) else line for line in lines)
    expected = Counter(line[1] for line in lines if isinstance(line, tuple))
    assert seen(read([text.encode()]).to_dict()) == expected


@unhurried
@given(st.lists(noise, max_size=20))
def test_none_is_made_up(lines: list[str]) -> None:
    found = read(["\n".join(lines).encode()]).to_dict()
    assert (found["events"], found["incidents"]) == ([], [])


@unhurried
@given(st.lists(faults, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_changes_no_event(lines: list[Any], dice: random.Random) -> None:
    shuffled = list(lines)
    dice.shuffle(shuffled)
    first, second = (
        read(["\n".join(line for line, _ in some).encode()]).to_dict() for some in (lines, shuffled)
    )
    assert seen(first) == seen(second)


@unhurried
@given(faults, st.integers(0, 200))
def test_a_cut_line_gives_its_event_or_none(fault: Any, place: int) -> None:
    line, (pci, code) = fault
    header = line.index(f"): {code}") + len(f"): {code}")
    found = seen(read([line[:place].encode()]).to_dict())
    if place >= header:
        assert found == Counter([(pci, code)])
    else:
        # A number that was cut is still a number; nothing before it may be taken for one.
        assert sum(found.values()) <= 1
        assert all(str(code).startswith(str(other)) for _, other in found)


@unhurried
@given(faults, faults)
def test_two_writers_on_one_line(one: Any, other: Any) -> None:
    found = seen(read([(one[0] + other[0]).encode()]).to_dict())
    assert found == Counter([one[1], other[1]])


def flood(count: int, code: int = 45, tail: str = "pid=31001, name=python3, Ch {:08x}") -> bytes:
    return "".join(
        f"[{100 + number / 1e4:12.6f}] NVRM: Xid (PCI:0000:4a:00): {code}, {tail.format(number)}\n"
        for number in range(count)
    ).encode()


@pytest.mark.parametrize("code", [31, 45, 79, 95, 999])
def test_floods_are_counted_to_the_line_and_not_kept(code: int) -> None:
    report = read([flood(5000, code)])
    found = report.to_dict()
    assert len(report.events) < 100
    (incident,) = found["incidents"]
    assert (incident["count"], incident["pids"]) == (5000, [31001])
    assert incident["last_line"] == 4999
    assert incident["last_time"] == pytest.approx(100.4999)
    (summary,) = found["events_summary"]
    assert (summary["count"], summary["name"]) == (5000, "python3")
    assert found["counts"]["lines"] == found["counts"]["events"] == 5000


def test_floods_of_many_processes_are_bounded() -> None:
    report = read([flood(20000, 45, "pid={0}, name=worker, Ch 00000001")])
    found = report.to_dict()
    assert sum(item["count"] for item in found["events_summary"]) == 20000
    assert len(found["events_summary"]) < 5000
    assert found["incidents"][0]["count"] == 20000


def test_a_flood_hides_no_other_fault() -> None:
    lines = flood(3000).splitlines(keepends=True)
    lines.insert(2900, b"[  100.200000] NVRM: Xid (PCI:0000:4b:00): 79, GPU has fallen off\n")
    lines.insert(2950, b"[  100.200000] NVRM: Xid (PCI:0000:4a:00): 154, GPU recovery action "
                       b"changed from 0x0 (None) to 0x2 (Node Reboot Required)\n")  # fmt: skip
    found = {one["pci"]: one for one in read([b"".join(lines)]).to_dict()["incidents"]}
    assert found["0000:4b:00.0"]["action"] == "reboot_node"
    assert (found["0000:4a:00.0"]["action"], found["0000:4a:00.0"]["count"]) == (
        "reboot_node",
        3001,
    )


def test_flags_are_read_in_a_flood() -> None:
    mild = flood(500, 94, "pid=7, name=x, Contained: SM (0x{:x}). RST: No, D-RST: No")
    hard = b"[  100.060000] NVRM: Xid (PCI:0000:4a:00): 94, pid=7, name=x, " + (
        b"Contained: PMU (0x1). RST: Yes, D-RST: No\n"
    )
    (found,) = read([mild, hard]).to_dict()["incidents"]
    assert (found["action"], found["count"]) == ("reset_gpu", 501)


def test_a_flood_that_ends_starts_anew() -> None:
    late = b"[ 9000.000000] NVRM: Xid (PCI:0000:4a:00): 45, pid=31001, name=python3, Ch 1\n"
    found = read([flood(500), late]).to_dict()["incidents"]
    assert [one["count"] for one in found] == [500, 1]


def test_lines_without_end_do_not_fill_the_memory() -> None:
    report = Report()
    for _ in range(64):
        report.log.feed(b"x" * (1 << 20))
    report.log.feed(b"\nNVRM: Xid (PCI:0000:4a:00): 79, GPU has fallen off the bus.")
    report.log.close()
    found = report.to_dict()
    assert seen(found) == Counter([("0000:4a:00.0", 79)])
    assert found["events"][0]["line"] == 1


def test_incidents_are_told_when_they_are_over() -> None:
    told: list[Any] = []
    log = KernelLog(Tellers(incident=told.append))
    log.feed(b"[ 1.0] NVRM: Xid (PCI:0000:4a:00): 31, Ch 1\n")
    assert told == []
    log.feed(b"[ 500.0] NVRM: Xid (PCI:0000:4a:00): 31, Ch 1\n")
    assert len(told) == 1
    log.close()
    assert len(told) == 2
