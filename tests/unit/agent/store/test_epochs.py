"""Epochs: one winner, whoever comes at the same time."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuguard.agent.store.epochs import (
    EpochRecord,
    claim_epoch,
    highest_epoch,
    is_void,
    read_claims,
    void_epoch,
)
from gpuguard.model.errors import BusyError, GpuguardError, RefusedError

RECORD = EpochRecord(1, "h1", "uid-1", "restore-1", "2026-11-29T16:00:00Z")


def test_the_highest_number_counts_not_the_longest_name(tmp_path: Path) -> None:
    assert highest_epoch(tmp_path) is None
    for number in (1, 9, 10):
        claim_epoch(tmp_path, dataclasses.replace(RECORD, epoch=number, procedure=f"r{number}"))
    assert highest_epoch(tmp_path) == dataclasses.replace(RECORD, epoch=10, procedure="r10")


def test_the_same_procedure_may_ask_again(tmp_path: Path) -> None:
    claim_epoch(tmp_path, RECORD)
    claim_epoch(tmp_path, dataclasses.replace(RECORD, at="later"))
    assert highest_epoch(tmp_path) == RECORD


def test_another_one_is_refused_and_the_holder_named(tmp_path: Path) -> None:
    claim_epoch(tmp_path, RECORD)
    with pytest.raises(BusyError, match="h1 holds the job since 2026-11-29T16") as caught:
        claim_epoch(tmp_path, dataclasses.replace(RECORD, host="h2", procedure="restore-2"))
    assert caught.value.details["holder"]["procedure"] == "restore-1"


def test_a_lower_epoch_is_outdated(tmp_path: Path) -> None:
    claim_epoch(tmp_path, dataclasses.replace(RECORD, epoch=5))
    with pytest.raises(RefusedError, match="outdated"):
        claim_epoch(tmp_path, dataclasses.replace(RECORD, epoch=4, procedure="restore-2"))


def test_of_many_at_once_one_wins(tmp_path: Path) -> None:
    def claim(number: int) -> bool:
        try:
            claim_epoch(tmp_path, dataclasses.replace(RECORD, procedure=f"restore-{number}"))
        except BusyError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(24))) == 1
    assert [path.name for path in (tmp_path / "epochs").iterdir()] == ["1"]


def test_a_torn_record_is_an_error_not_an_epoch(tmp_path: Path) -> None:
    (tmp_path / "epochs").mkdir()
    (tmp_path / "epochs/3").write_text("{")
    with pytest.raises(GpuguardError, match="epochs/3"):
        highest_epoch(tmp_path)


def test_a_claim_that_came_to_nothing_is_void_and_another_ones_is_not(tmp_path: Path) -> None:
    void_epoch(tmp_path, 2, "restore-2")
    assert not is_void(tmp_path, 2)
    claim_epoch(tmp_path, dataclasses.replace(RECORD, epoch=2, procedure="restore-2"))
    void_epoch(tmp_path, 2, "restore-3")
    assert not is_void(tmp_path, 2)
    void_epoch(tmp_path, 2, "restore-2")
    assert is_void(tmp_path, 2)
    assert [claim.epoch for claim in read_claims(tmp_path)] == [2]
