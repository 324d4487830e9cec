"""What a host says of a signed checkpoint and of a running job: whole, damaged, or another's."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.preflight_methods import judge, preflight
from gpuguard.agent.restoring import host_sight
from gpuguard.agent.restoring.judging import Question, judge_host
from gpuguard.model.errors import UsageError
from gpuguard.model.manifests import OpenFile
from gpuguard.model.plans import Finding, Level
from tests.integration.agent.odd_jobs import running
from tests.integration.agent.signed import publish, signers
from tests.unit.agent.checkpoints import JOB, fill_stage
from tests.unit.agent.job_records import job_of

HELD = ("store", "signature", "copies", "cordon", "programs", "files", "pids")


@pytest.fixture(autouse=True)
def criu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_sight, "criu_version", lambda: "4.2.1")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    store.mkdir()
    python = OpenFile(
        "/usr/bin/python3",
        Path("/usr/bin/python3").stat().st_size,
        0o100755,
        False,
        False,
        mapped=True,
    )
    return publish(store, tmp_path / "keys", fill_stage(tmp_path / "stage"), open_files=(python,))


def ask(paths: NodePaths, folder: Path, **changes: object) -> dict[str, Finding]:
    keys = folder.parents[2] / "keys"
    question = Question(str(folder.parents[1]), JOB, "h2", folder.name, signers(keys))
    return {f.code: f for f in judge_host(paths, replace(question, **changes))}  # type: ignore[arg-type]


def against(found: dict[str, Finding]) -> set[str]:
    return {code for code, item in found.items() if item.level is Level.ERROR}


def test_a_whole_checkpoint_on_a_host_that_fits(paths: NodePaths, saved: Path) -> None:
    found = ask(paths, saved)
    assert against(found) == set()
    assert set(HELD) <= found.keys()
    assert found["signature"].text == "signed by h1, which is enrolled"


def cut(folder: Path) -> None:
    pages = folder / "images" / "pages-1.img"
    pages.write_bytes(pages.read_bytes()[:-1])


def drop(folder: Path) -> None:
    (folder / "images" / "pstree.img").unlink()


def replay(folder: Path) -> None:
    folder.rename(folder.with_name("20260101T000000Z-aaaaaa"))


@pytest.mark.parametrize(
    ("tamper", "words"),
    [(cut, "cut short"), (drop, "pstree.img is missing"), (replay, "is of checkpoint")],
)
def test_a_damaged_checkpoint(
    paths: NodePaths, saved: Path, tamper: Callable[[Path], None], words: str
) -> None:
    tamper(saved)
    folder = next(path for path in saved.parent.iterdir() if path.name.startswith("20"))
    found = ask(paths, folder)
    assert against(found) == {"checkpoint-damaged"}
    assert words in found["checkpoint-damaged"].text


def test_who_signed_it(paths: NodePaths, saved: Path, tmp_path: Path) -> None:
    assert against(ask(paths, saved, allowed_signers="")) == {"signature-unknown"}
    other = signers(tmp_path / "other-keys")
    assert against(ask(paths, saved, allowed_signers=other)) == {"signature-unknown"}
    own = signers(tmp_path / "keys", "h9")
    assert against(ask(paths, saved, allowed_signers=own)) == {"signature-other-node"}
    text = (saved / "manifest.json").read_text()
    (saved / "manifest.json").write_text(text.replace('"epoch": 1', '"epoch": 2'))
    assert against(ask(paths, saved)) == {"signature-wrong"}


def test_a_store_that_is_not_there_or_shows_nothing(paths: NodePaths, saved: Path) -> None:
    shutil.rmtree(saved)
    assert against(ask(paths, saved)) == {"store-unreachable"}
    saved.parent.parent.rename(saved.parent.parent.with_name("away"))
    assert against(ask(paths, saved)) == {"store-unreachable"}


def test_a_running_job_is_judged_by_its_record(
    paths: NodePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("looks into other processes")
    from gpuguard.agent.jobs.register import save_job

    monkeypatch.setenv("GPUGUARD_NODE_ROOT", str(paths.root))
    program = "s = socket.create_server(('127.0.0.1', 0)); f = open('log', 'a')"
    with running(program, tmp_path) as process:
        save_job(paths, job_of(process.pid))
        answer = preflight({"name": "odd", "host": "h1"}, None)  # type: ignore[arg-type]
    assert "store-none" in {item.code for item in answer["findings"]}
    record = answer["record"].to_dict()
    assert len(record["listens"]) == 1
    assert any(item["build_id"] for item in record["open_files"])
    (tmp_path / "store").mkdir()
    question = {"store": str(tmp_path / "store"), "job": "other", "host": "h2", "record": record}
    found = {item.code: item for item in judge(question, None)}  # type: ignore[arg-type]
    assert against(found) == set()
    assert "signature" not in found
    with pytest.raises(UsageError, match="checkpoint"):
        judge({**question, "record": None}, None)  # type: ignore[arg-type]
