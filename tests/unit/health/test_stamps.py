"""Prefixes of every log form, and what they let be known."""

import pytest

from gpuguard.health.stamps import read_prefix


@pytest.mark.parametrize(
    ("text", "form", "host", "facility"),
    [
        ("", "none", None, None),
        ("[ 12345.678901] ", "boot_seconds", None, None),
        ("[  130.456250] [   T2046] ", "boot_seconds", None, None),
        ("[Sun Feb 23 16:24:18 2025] ", "wall_no_zone", None, None),
        ("kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ", "wall", None, 0),
        ("user  :warn  : [ 123.4] ", "boot_seconds", None, 1),
        ("[  +0.000844] ", "relative", None, None),
        ("<4>[16450.076098] ", "boot_seconds", None, 0),
        ("<12>[16450.076098] ", "boot_seconds", None, 1),
        ("Feb 14 05:03:41 node1 kernel: ", "wall_no_year", "node1", None),
        ("jan. 29 05:03:41 node1 kernel: ", "wall_no_year", "node1", None),
        ("Mar 21 21:42:01 kernel: ", "wall_no_year", None, None),
        ("kernel: ", "none", None, None),
        ("Mar 21 14:25:44.984246 node1 kernel: ", "wall_no_year", "node1", None),
        ("2026-03-23T00:00:00+0000 node1 kernel: ", "wall", "node1", None),
        ("1718000000.5 box kernel: ", "wall", "box", None),
        ("May 19 07:08:57 node1 kernel: [680111.646286] ", "wall_no_year", "node1", None),
        ("192.0.2.19: kern: warning: [2026-04-22T21:25:20.458998481Z]: ", "wall", "192.0.2.19", 0),
        ("<4>1 2026-03-01T10:11:12.131Z node1 kernel - - - ", "wall", "node1", 0),
        ("Tue 2026-03-03 10:11:12 UTC node1 kernel: ", "wall_no_zone", "node1", None),
        ("[ 1234.567890] node1 kernel: ", "boot_seconds", "node1", None),
        ("4,1227,437812449932,c;", "boot_seconds", None, 0),
        ("12,7,5,-,caller=T1;", "boot_seconds", None, 1),
    ],
)
def test_log_forms(text: str, form: str, host: str | None, facility: int | None) -> None:
    prefix = read_prefix(text)
    assert (prefix.form, prefix.host, prefix.facility) == (form, host, facility)
    assert not prefix.relayed
    assert prefix.trusted is (None if facility is None else facility == 0)


@pytest.mark.parametrize(
    "text",
    [
        "[gpu-health] [CRITICAL] GPU-11111111: XID: ",
        "2026-03-01T10:11:12.131415161Z stderr F reader 3f1e9a7c5b2d [ 4100.220011] ",
        "node7 | ERROR: nhc: ",
        "May 19 07:08:57 node1 logger[77]: ",
    ],
)
def test_what_a_program_passed_on_is_relayed(text: str) -> None:
    assert read_prefix(text).relayed


def test_clocks_are_ordered_across_zones_and_months() -> None:
    early = read_prefix("2026-02-28T23:59:59+01:00 n kernel: ").seconds
    late = read_prefix("2026-03-01T00:00:01+01:00 n kernel: ").seconds
    other = read_prefix("2026-02-28T23:00:01Z n kernel: ").seconds
    assert early is not None
    assert late is not None
    assert late - early == 2
    assert other == late


def test_repeated_messages_are_multiplied() -> None:
    assert read_prefix("May 19 07:08:57 n kernel: message repeated 47 times: [ ").repeat == 47


def test_kmsg_record() -> None:
    prefix = read_prefix("4,1227,437812449932,c,caller=T1,new=field;")
    assert prefix.kmsg == {
        **{"priority": 4, "facility": 0, "level": 4},
        **{"seq": 1227, "usec": 437812449932, "flags": "c"},
    }
    assert prefix.seconds == 437812.449932
