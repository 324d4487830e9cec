"""The doctor's report: folded by finding, heaviest first, with the exit codes of the manual."""

import json

import pytest

from gpuguard.commands.doctor import exit_code, grouped, print_json, print_reports
from gpuguard.commands.options import Format
from gpuguard.model.errors import UnreachableError
from gpuguard.model.plans import Finding, Level
from gpuguard.running.doctoring import HostReport


def report(host: str, *findings: tuple[Level, str, str]) -> HostReport:
    return HostReport(
        host, tuple(Finding(level, code, host, text, "do it") for level, code, text in findings)
    )


SILENT = HostReport(
    "gpu009", error={**UnreachableError("gpu009: no route", "ping it").to_dict(), "host": "gpu009"}
)
OLD = (Level.ERROR, "criu-too-old", "CRIU 4.1.1 is too old")
LATE = (Level.WARNING, "clock-skew", "90 s ahead")
GOOD = (Level.OK, "python", "Python 3.13")


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ([report("a", GOOD)], 0),
        ([report("a", LATE)], 0),
        ([report("a", OLD), report("b", GOOD)], 1),
        ([report("a", GOOD), SILENT], 3),
        ([report("a", OLD), SILENT], 3),
        ([SILENT], 4),
    ],
)
def test_exit_code(reports: list[HostReport], code: int) -> None:
    assert exit_code(reports) == code


def test_same_finding_on_many_hosts_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    reports = [report(f"gpu{n:03}", GOOD, LATE, OLD) for n in range(1, 5)] + [
        report("gpu005", GOOD)
    ]
    print_reports(reports, every=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "error  gpu[001-004]: CRIU 4.1.1 is too old  [criu-too-old]"
    assert lines[1].strip() == "do it"
    assert lines[2].startswith("warning  gpu[001-004]: 90 s ahead")
    assert lines[-1] == "ok  gpu005: nothing stands in the way"
    assert "Python" not in "\n".join(lines)


def test_all_shows_what_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([report("gpu001", GOOD)], every=True)
    assert "ok  gpu001: Python 3.13" in capsys.readouterr().out


def test_silent_hosts_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([SILENT], every=False)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "gpu009: no route" in printed.err
    assert "ping it" in printed.err


def test_text_from_a_host_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([report("a", (Level.ERROR, "criu-check", "bad \x1b[2J"))], every=False)
    assert "\x1b" not in capsys.readouterr().out


def test_json_holds_every_finding_and_every_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([report("a", GOOD, OLD), SILENT], Format.JSON)
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema"] == "gpuguard.doctor/1"
    assert [item["code"] for item in printed["items"]] == ["python", "criu-too-old"]
    assert printed["errors"][0]["host"] == "gpu009"


def test_json_lines_are_one_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([report("a", GOOD, OLD), SILENT], Format.JSONL)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["schema"] for line in lines] == [
        "gpuguard.doctor/1",
        "gpuguard.doctor/1",
        "gpuguard.error/1",
    ]


def test_findings_are_grouped_by_all_but_their_host() -> None:
    other = (Level.ERROR, "criu-too-old", "CRIU 3.17 is too old")
    found = grouped([report("a", OLD), report("b", other), report("c", OLD)])
    assert list(found.values()) == [["a", "c"], ["b"]]
