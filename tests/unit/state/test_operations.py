"""The operator's journal: order, beginnings of ids, broken and newer files."""

import sqlite3
from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError, RefusedError, UsageError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.operations import OperationState, OperationStep
from gpuguard.model.plans import Plan
from gpuguard.state.clock import SystemClock
from gpuguard.state.operations import Operations


def plan(name: str) -> Plan:
    return Plan(id=name, verb="checkpoint", jobs=("llm",), steps=())


def journal(folder: Path) -> Operations:
    return Operations(folder / "state" / "operations.sqlite3", SystemClock())


def step(text: str) -> OperationStep:
    return OperationStep(seq=0, at="", host="gpu001", step="dump", state="done", text=text)


def test_an_operation_comes_back_with_its_steps_in_order(tmp_path: Path) -> None:
    operations = journal(tmp_path)
    log = operations.begin(plan("a"), "me@here")
    log.step(step("first"))
    log.step(step("second"))
    log.end(OperationState.FAILED, ExitCode.REFUSED, RefusedError("no", "do"), {"x": 1})
    shown = journal(tmp_path).show("a")
    assert [(s.seq, s.text) for s in shown.steps] == [(1, "first"), (2, "second")]
    assert shown.state is OperationState.FAILED
    assert shown.exit_code == 5
    assert shown.error is not None and shown.error["hint"] == "do"
    assert shown.result == {"x": 1}


def test_newest_come_first_and_a_beginning_of_the_id_is_enough(tmp_path: Path) -> None:
    operations = journal(tmp_path)
    for name in ("aa-1", "aa-2", "b%-3"):
        operations.begin(plan(name), "me@here")
    assert [o.id for o in operations.list()] == ["b%-3", "aa-2", "aa-1"]
    assert operations.show("b").id == "b%-3"
    assert operations.show("aa-1-save-2").id == "aa-1"
    with pytest.raises(UsageError, match="several"):
        operations.show("aa")
    with pytest.raises(UsageError, match="not in the journal"):
        operations.show("%")


def test_the_file_is_private(tmp_path: Path) -> None:
    operations = journal(tmp_path)
    operations.begin(plan("a"), "me@here")
    assert operations.path.stat().st_mode & 0o777 == 0o600
    assert operations.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_no_journal_is_named_with_the_way_out(tmp_path: Path) -> None:
    operations = journal(tmp_path)
    operations.path.parent.mkdir()
    operations.path.write_bytes(b"not a database at all, but long enough to look at" * 50)
    with pytest.raises(GpuguardError, match=r"operations\.sqlite3") as caught:
        operations.list()
    assert caught.value.hint is not None and "aside" in caught.value.hint


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    operations = journal(tmp_path)
    operations.begin(plan("a"), "me@here")
    operations.close()
    raw = sqlite3.connect(operations.path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(UsageError, match="format 99"):
        operations.list()
