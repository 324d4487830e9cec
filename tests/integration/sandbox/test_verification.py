"""A real run of the workload, and what the verifier says of tampered logs."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuguard.sandbox.verification import read_steps, verify_steps

_RUN = [sys.executable, "-m", "gpuguard.sandbox.workloads.steps", "--tick", "0", "--steps", "12"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("work")
    options = ["--all", "--cwd", str(folder), "--log", "steps.log", "--plain-log", "plain.log"]
    # 3 MiB are 48 blocks, of which a step visits 16: every block is visited again.
    done = subprocess.run(
        [*_RUN, "--size-mib", "3", "--exit-code", "7", *options],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")
    text = (folder / "steps.log").read_text()
    assert (folder / "plain.log").read_text() == text
    assert [path.name for path in folder.glob("deleted-*")] == []
    return text


def _lines(log: str) -> list[str]:
    return log.splitlines(keepends=True)


def test_an_unbroken_run_is_believed(log: str) -> None:
    report = read_steps(log)
    assert (report.last, report.repeated, report.findings) == (12, 0, [])


def test_a_last_line_still_being_written_is_no_finding(log: str) -> None:
    assert verify_steps(log + "step 13 0123") == []


def test_a_missing_step_is_found(log: str) -> None:
    lines = _lines(log)
    assert verify_steps("".join(lines[:5] + lines[6:])) == ["line 6: steps 5 to 5 are missing"]


def test_a_step_done_twice_is_found_and_allowed_only_after_its_checkpoint(log: str) -> None:
    lines = _lines(log)
    again = "".join(lines[:9] + lines[6:])
    assert "step 6 done again after step 8" in verify_steps(again)[0]
    assert verify_steps(again, rollbacks=[4]) != []
    report = read_steps(again, rollbacks=[5])
    assert (report.findings, report.repeated, report.last) == ([], 3, 12)


def test_a_changed_checksum_is_found(log: str) -> None:
    lines = _lines(log)
    lines[4] = f"step 4 {'0' * 32}\n"
    assert verify_steps("".join(lines)) == [
        "line 5: step 4 has another checksum: its run lost part of its state"
    ]


def test_another_run_of_the_same_steps_is_not_taken_for_this_one(log: str, tmp_path: Path) -> None:
    other = subprocess.run(_RUN, capture_output=True, text=True, timeout=30, cwd=tmp_path).stdout
    assert verify_steps(other) == []
    mixed = "".join(_lines(log)[:7] + _lines(other)[7:])
    assert len(verify_steps(mixed)) == 6


def test_a_cold_start_in_the_middle_is_found(log: str) -> None:
    assert "started anew after step 12" in verify_steps(log + log)[0]


def test_lost_state_of_one_part_is_found(log: str) -> None:
    # The same log as from a run whose thread had not taken part: every checksum differs.
    assert len(verify_steps(log.replace(",thread", ""))) == 12


@pytest.mark.parametrize("text", ["", "step 1 00\n", "hello\n"])
def test_what_is_no_step_log_is_found(text: str) -> None:
    assert verify_steps(text) != []
