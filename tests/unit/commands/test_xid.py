"""gpuguard xid: what is said of a number, a line and a log, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuguard.commands.main import run

LINE = (
    "NVRM: Xid (PCI:0000:4e:00): 94, pid=41210, name=python, "
    "Contained: SM (0x1). RST: {}, D-RST: No"
)


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        run(["xid", *words])
    out = capsys.readouterr()
    return int(end.value.code or 0), out.out, out.err


def item(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, _ = call(capsys, *words, "-o", "json")
    assert code == 0
    (found,) = json.loads(out)["items"]
    assert isinstance(found, dict)
    return found


def test_number(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "79")
    assert (code, err) == (0, "")
    for text in ("fallen off the bus", "critical", "reboot", "last good checkpoint", "disagree"):
        assert text in out


def test_several_numbers_and_switches(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "119/120", "20034", "-o", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, [(row["kind"], row["code"]) for row in rows]) == (
        0,
        [("xid", 119), ("xid", 120), ("sxid", 20034)],
    )


def test_driver_decides_the_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert item(capsys, "144")["action"] == "workflow_nvlink5"
    assert item(capsys, "144", "--driver", "550.127.05")["action"] == "restart_vm"
    assert item(capsys, "--driver", "550.127.05", "144")["action"] == "restart_vm"


def test_flags_of_a_line_outrank_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert item(capsys, LINE.format("No"))["remedy"] == "restart_job"
    assert item(capsys, LINE.format("Yes"))["remedy"] == "reset_gpu"
    assert item(capsys, LINE.format("Yes"))["event"]["pid"] == 41210


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["180"], "175, 176, 185"),
        (["29999"], "is in no catalog"),
        (["144", "--driver", "555.42.02"], "for driver 555.42.02"),
        (["144", "--driver", "new"], "is no version"),
        (["fallen"], "no Xid or SXid"),
        (["NVRM: Xid (PCI:0000:66:00): abc"], "no Xid or SXid line"),
    ],
)
def test_what_is_not_known_is_said(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "hint:" in err


def test_a_log_in_every_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text(f"[ 1.0] {LINE.format('No')}\nand more\n")
    code, out, _ = call(capsys, "parse", str(log), "-o", "json")
    found = json.loads(out)
    assert (code, found["counts"]["lines"]) == (0, 2)
    assert [event["code"] for event in found["events"]] == [94]
    code, out, _ = call(capsys, "parse", str(log), "-o", "jsonl")
    assert [json.loads(line)["what"] for line in out.splitlines()] == ["event", "incident"]
    code, out, err = call(capsys, "parse", str(log))
    assert "restart app" in out
    assert "2 lines, 1 fault event" in err


def test_a_clean_log_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_bytes(b"\xff\x00 no fault\n")
    assert "no fault" in call(capsys, "parse", str(log))[1]


def test_a_log_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = call(capsys, "parse", str(tmp_path / "none"))
    assert code == 2
    assert "none: cannot be read" in err
