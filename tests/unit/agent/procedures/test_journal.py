"""The journal file: order, facts, torn and broken lines."""

import json
from pathlib import Path

import pytest

from gpuguard.agent.procedures.journal import RESERVE_BYTES, Journal
from gpuguard.model.errors import GpuguardError
from gpuguard.model.procedures import EntryState


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal.create(tmp_path)
    journal.append("a", EntryState.BEGIN)
    journal.append("a", EntryState.NOTE, "makes", {"x": 1, "y": 1})
    journal.append("a", EntryState.PROGRESS, "half", {"x": 99}, synced=False)
    journal.append("a", EntryState.DONE, data={"y": 2})
    return journal


def test_facts_are_what_all_entries_but_progress_say(journal: Journal, tmp_path: Path) -> None:
    assert journal.facts == {"x": 1, "y": 2}
    assert Journal.read(tmp_path).facts == journal.facts
    assert journal.states("a") == {EntryState.BEGIN, EntryState.DONE}
    assert journal.states("b") == set()


def test_resume_goes_on_where_the_last_writer_stopped(journal: Journal, tmp_path: Path) -> None:
    journal.close()
    again = Journal.resume(tmp_path)
    assert again.append("b", EntryState.BEGIN).seq == 5
    assert [entry.seq for entry in Journal.read(tmp_path).entries] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("torn", ['{"seq": 5', '{"seq": 5}\n', "\x00\x00\x00", '{"seq"\n'])
def test_torn_end_is_left_out_and_cut_off(journal: Journal, tmp_path: Path, torn: str) -> None:
    with journal.path.open("a") as file:
        file.write(torn)
    assert len(Journal.read(tmp_path).entries) == 4
    Journal.resume(tmp_path).append("b", EntryState.BEGIN)
    assert [json.loads(line)["seq"] for line in journal.path.read_text().splitlines()] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_broken_line_in_the_middle_is_an_error_with_its_place(
    journal: Journal, tmp_path: Path
) -> None:
    lines = journal.path.read_text().splitlines()
    journal.path.write_text("\n".join([lines[0], "rubbish", *lines[2:]]) + "\n")
    with pytest.raises(GpuguardError, match=r"journal\.jsonl:2"):
        Journal.read(tmp_path)


def test_reserve_is_there_until_it_is_needed(journal: Journal, tmp_path: Path) -> None:
    assert (tmp_path / "reserve").stat().st_size == RESERVE_BYTES
    journal.release_reserve()
    journal.release_reserve()
    assert not (tmp_path / "reserve").exists()


def test_what_the_disk_refuses_is_kept_and_the_file_stays_whole(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) > 10:
            return real(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        journal.append("b", EntryState.BEGIN)
    journal.append_anyway("b", EntryState.FAILED, "it failed", {"failure": 1})
    monkeypatch.undo()
    assert journal.facts["failure"] == 1
    assert journal.unwritten[0].text.startswith("it failed")
    assert len(Journal.read(tmp_path).entries) == 4
