"""Names, order, limits: what decides which checkpoint is the newest and what may be removed."""

from datetime import datetime, timedelta, timezone

import pytest

from gpuguard.checkpoint.limits import dump_seconds, ghost_limit, room_needed
from gpuguard.checkpoint.naming import (
    is_checkpoint_id,
    is_job_name,
    make_checkpoint_id,
    partial_id,
    partial_name,
)
from gpuguard.checkpoint.ordering import (
    is_last_durable,
    newest_durable,
    newest_first,
    next_sequence,
)
from gpuguard.checkpoint.restart_pids import first_free_pid
from gpuguard.model.manifests import CheckpointInfo


def info(
    checkpoint: str, epoch: int, sequence: int, state: str = "durable", uid: str = "u"
) -> CheckpointInfo:
    return CheckpointInfo(
        checkpoint, "job", uid, "h1", epoch, sequence, "", None, 1, f"/s/{checkpoint}", state
    )


def test_an_id_is_in_utc_and_unique() -> None:
    east = timezone(timedelta(hours=9))
    moment = datetime(2026, 11, 29, 1, 2, 3, tzinfo=east)
    first, second = make_checkpoint_id(moment), make_checkpoint_id(moment)
    assert first.startswith("20261128T160203Z-")
    assert first != second
    assert is_checkpoint_id(first)


@pytest.mark.parametrize("text", ["", "..", "20261128T160203Z", "20261128T160203Z-abcdeg", "a/b"])
def test_other_names_are_no_ids(text: str) -> None:
    assert not is_checkpoint_id(text)


@pytest.mark.parametrize("text", ["", ".", "..", ".x", "a/b", "a\0", "x" * 65, "-rf", "a\n"])
def test_names_that_could_leave_the_store_are_no_job_names(text: str) -> None:
    assert not is_job_name(text)


def test_a_partial_name_tells_its_id() -> None:
    name = make_checkpoint_id()
    assert partial_id(partial_name(name)) == name
    assert partial_id(name) is None
    assert partial_id(".partial-../../etc") is None


def test_epoch_and_sequence_order_not_the_clock() -> None:
    old_clock = info("20200101T000000Z-aaaaaa", epoch=2, sequence=5)
    new_clock = info("20300101T000000Z-aaaaaa", epoch=1, sequence=9)
    assert newest_first([new_clock, old_clock])[0] is old_clock


@pytest.mark.parametrize("state", ["partial", "broken"])
def test_what_cannot_be_restored_is_never_the_newest(state: str) -> None:
    good = info("a", 1, 1)
    bad = info("b", 9, 9, state)
    assert newest_first([bad, good])[0] is good
    assert newest_durable([bad], None) is None


def test_another_jobs_checkpoint_is_not_the_newest_of_this_one() -> None:
    assert newest_durable([info("a", 9, 9, uid="other"), info("b", 1, 1)], "u") == info("b", 1, 1)


def test_the_sequence_counts_broken_ones_too() -> None:
    assert next_sequence([], "u") == 1
    assert next_sequence([info("a", 1, 3, "broken"), info("b", 1, 7, uid="v")], "u") == 4


def test_the_last_durable_one_is_known() -> None:
    both = [info("a", 1, 1), info("b", 1, 2)]
    assert not is_last_durable(both, "a")
    assert is_last_durable([both[0], info("b", 1, 2, "broken")], "a")
    assert is_last_durable([both[0], info("b", 1, 2, uid="other")], "a")
    assert not is_last_durable([info("b", 1, 2, "broken")], "b")


def test_a_longer_past_makes_a_longer_limit() -> None:
    assert dump_seconds(0, 1) < dump_seconds(1 << 40, 1)
    assert dump_seconds(0, 1, history=[100.0]) == 400.0
    assert dump_seconds(0, 1, history=[0.001]) == dump_seconds(0, 1)


def test_room_and_ghosts_leave_a_margin() -> None:
    assert room_needed(100, 20, 3, 1) > 123
    assert ghost_limit(0) == 1 << 20
    assert ghost_limit(3 << 20) == 6 << 20


def test_the_restores_own_processes_start_beyond_the_image() -> None:
    assert first_free_pid([1000, 1003, 1001], 32768) == 1003


def test_a_job_with_the_highest_numbers_leaves_a_gap_below() -> None:
    start = first_free_pid([400, 5000, 32700], 32768)
    assert start == 5000
    assert not {400, 5000, 32700} & set(range(start + 1, start + 300))


def test_a_namespace_without_a_gap_is_an_error() -> None:
    with pytest.raises(ValueError, match="process numbers"):
        first_free_pid(range(300, 1000, 100), 1000)
