"""Every kernel log gives its events, its other lines and its incidents, whatever is around them.

The file's own rules hold: only keys that are written are compared, a key given as null must be
empty, `…_any_of` accepts each listed value, sentences (why, note) are not compared.
"""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from gpuguard.health.report import read

Case = dict[str, Any]
SENTENCES = {"why", "note", "notes", "evidence", "optional", "incident_count"}
SETS = {"codes", "pids", "same_error_lines"}
NOISE = (
    "[ 9000.000001] usb 1-1: new high-speed USB device number 2 using xhci_hcd",
    "[ 9000.000002] EXT4-fs (sda1): mounted filesystem with ordered data mode",
    "some program's own words; xid 12, nothing of the kernel's",
    "",
)


def log_of(case: Case) -> list[str]:
    """The lines of the entry, the repeated ones written out."""
    lines = list(case["lines"])
    repeat = case.get("repeat")
    if not repeat:
        return lines
    numbers = range(repeat["first_n"], repeat["first_n"] + repeat["count"])
    many = [repeat["template"].format(n=number) for number in numbers]
    place = repeat["after_line"] + 1 if "after_line" in repeat else len(lines)
    return [*lines[:place], *many, *lines[place:]]


def parsed(case: Case, lines: list[str] | None = None) -> dict[str, Any]:
    text = "\n".join(log_of(case) if lines is None else lines)
    return read([text.encode()], case.get("driver")).to_dict()


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Say where `found` is not what `expected` asks for."""
    wrong = []
    for key, value in expected.items():
        if key in SENTENCES:
            continue
        name = key.removesuffix("_any_of")
        if name in expected and name != key:
            continue  # the plain value is judged with its alternatives
        allowed = [*expected.get(f"{name}_any_of", []), *([value] if name == key else [])]
        have = found.get(name)
        if not any(same(name, one, have) for one in allowed):
            wrong.append(f"{name}: expected {value!r}, found {have!r}")
    return wrong


def same(key: str, expected: Any, found: Any) -> bool:
    if expected is None:
        return not found and found is not False and found != 0
    if isinstance(expected, Mapping):
        return isinstance(found, Mapping) and not differences(expected, found)
    if key in SETS:
        return bool(set(expected) == set(found or ()))
    if isinstance(expected, bool) or isinstance(found, bool):
        return bool(found) is bool(expected)
    return bool(expected == found)


def matched(
    expected: list[dict[str, Any]], found: list[dict[str, Any]]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Pair each expected item with a found one; return what is wrong and what is left over."""
    left, wrong = list(found), []
    for item in expected:
        faults = [(differences(at_line(item, other), other), other) for other in left]
        good = [other for fault, other in faults if not fault]
        if good:
            left.remove(good[0])
        elif not item.get("optional"):
            near = [fault for fault, other in faults if near_by(item, other)] or [["not found"]]
            wrong.append(f"{item}: {'; '.join(near[0])}")
    return wrong, left


def at_line(item: dict[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The item, its line let go where the found error stands over several lines that hold it."""
    if item.get("line") in found.get("same_error_lines", ()):
        return {key: value for key, value in item.items() if key != "line"}
    return item


def near_by(item: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    return all(item.get(key) == found.get(key) for key in ("line", "pci") if key in item)


def test_events(kernel_lines: Case) -> None:
    expect = kernel_lines["expect"]
    found = parsed(kernel_lines)
    if "events" in expect:
        wrong, left = matched(expect["events"], found["events"])
        assert (wrong, left) == ([], [])
    if "events_summary" in expect:
        wrong, left = matched(expect["events_summary"], found["events_summary"])
        if "events" not in expect:
            assert left == []
        assert wrong == []


def test_incidents(kernel_lines: Case) -> None:
    expected = kernel_lines["expect"]["incidents"]
    wrong, left = matched(expected, parsed(kernel_lines)["incidents"])
    assert wrong == []
    assert [(item["pci"], item["primary"], item["action"]) for item in left] == []


def test_other_lines(kernel_lines: Case) -> None:
    wrong, _ = matched(kernel_lines["expect"].get("context", []), parsed(kernel_lines)["context"])
    assert wrong == []


def test_evidence(kernel_lines: Case) -> None:
    found = parsed(kernel_lines)["incidents"]
    for item in kernel_lines["expect"]["incidents"]:
        evidence = [one["evidence"] for one in found if one["pci"] == item["pci"]]
        assert not item.get("evidence") or len(evidence[0]) >= len(item["evidence"])


def test_time(kernel_lines: Case) -> None:
    time = kernel_lines.get("time", {})
    events = parsed(kernel_lines)["events"]
    plain = [one for one in events if not one["relayed"] and not one.get("tracepoint")]
    if plain and "form" in time:
        assert {one["time"]["form"] for one in plain} == {time["form"]}


@pytest.mark.parametrize("seed", range(3))
def test_other_lines_between_change_nothing(kernel_lines: Case, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    lines = log_of(kernel_lines)
    mixed: list[str] = []
    for line in lines:
        mixed += dice.sample(NOISE, dice.randint(0, 2)) if not line.startswith(" ") else []
        mixed.append(line)
    assert gist(parsed(kernel_lines, mixed)) == gist(parsed(kernel_lines))


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_pieces_of_any_size_give_the_same(kernel_lines: Case, size: int) -> None:
    data = "\n".join(log_of(kernel_lines)).encode()
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    assert read(pieces, kernel_lines.get("driver")).to_dict() == parsed(kernel_lines)


def test_line_ends_of_other_systems_change_nothing(kernel_lines: Case) -> None:
    text = "\r\n".join(log_of(kernel_lines)) + "\r\n"
    found = read([text.encode()], kernel_lines.get("driver")).to_dict()
    assert gist(found) == gist(parsed(kernel_lines))
    wide = read([text.encode("utf-16")], kernel_lines.get("driver")).to_dict()
    assert gist(wide) == gist(parsed(kernel_lines))


def gist(found: dict[str, Any]) -> Any:
    """What was found, without the numbers of lines."""
    events = [(one["kind"], one["pci"], one["code"], one["text"]) for one in found["events"]]
    incidents = [
        {key: value for key, value in one.items() if not key.endswith("_line")}
        for one in found["incidents"]
    ]
    return events, incidents
