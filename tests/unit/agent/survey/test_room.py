"""What preflight says of the host: store, stage and CRIU."""

import os
from pathlib import Path

import pytest

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.survey import room_findings as survey_room
from gpuguard.agent.survey.survey import Survey
from gpuguard.model.jobs import Job, JobPolicy
from tests.unit.agent.job_records import job_of


def _host(tmp_path: Path, job: Job) -> set[str]:
    survey = Survey(job, ())
    return {item.code for item in survey_room.check_host(NodePaths(tmp_path / "node"), survey)}


@pytest.fixture
def content_criu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_room, "criu_version", lambda: "4.2.1")


@pytest.mark.usefixtures("content_criu")
def test_store_and_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, stage = tmp_path / "store", tmp_path / "stage"
    store.mkdir()
    (tmp_path / "node").mkdir()
    policy = JobPolicy(store=str(store), stage=str(stage))
    job = job_of(os.getpid(), policy=policy)
    assert _host(tmp_path, job) == set()
    (store / "odd").mkdir()
    assert _host(tmp_path, job) == set()
    (store / "odd" / "uid").write_text("another\n")
    assert _host(tmp_path, job) == {"store-taken"}
    assert _host(tmp_path, job_of(os.getpid(), policy=JobPolicy(stage=str(stage)))) == {
        "store-none"
    }
    gone = JobPolicy(store=str(tmp_path / "gone"), stage=str(stage))
    assert _host(tmp_path, job_of(os.getpid(), policy=gone)) == {"store-unfit"}
    (store / "odd" / "uid").write_text("u-1\n")
    monkeypatch.setattr(survey_room, "free_bytes", lambda folder: 1 << 20)
    assert _host(tmp_path, job) == {"store-room", "stage-room"}


def test_criu_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_room, "criu_version", lambda: None)
    assert "criu-unfit" in _host(tmp_path, job_of(os.getpid()))
