"""The commands that change something, over scripted hosts: confirm, dry-run, JSON, hints."""

import dataclasses
import io
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuguard.commands import checkpoint, checkpoints, jobs, migrate, restore
from gpuguard.commands.confirm import agree
from gpuguard.commands.frame import invoke
from gpuguard.commands.options import Format, Settings, use_settings
from gpuguard.commands.progress import Reporter, line
from gpuguard.model.errors import RefusedError, UsageError
from gpuguard.model.jobs import JobState
from gpuguard.model.plans import Confirm, Plan
from gpuguard.planning.views import Placed
from gpuguard.running.desk import Desk, Progress
from tests.unit.planning.sights import manifest
from tests.unit.running.desks import desk_of, running_job, saved
from tests.unit.running.nodes import Node, Script


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    use_settings(Settings())


def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *nodes: Node) -> None:
    """Let the commands work on `nodes`."""

    @contextmanager
    def desk() -> Iterator[Desk]:
        made, _ = desk_of(tmp_path, list(nodes))
        with Reporter() as reporter:
            yield dataclasses.replace(made, on_progress=reporter.show)

    for module in (checkpoint, checkpoints, jobs, migrate, restore):
        monkeypatch.setattr(module, "open_desk", desk)


def two(script: Script | None = None) -> tuple[Node, Node]:
    return Node("gpu001", script, [running_job()]), Node("gpu002")


def lost() -> tuple[Node, Node]:
    nodes = two()
    nodes[0].jobs = [dataclasses.replace(running_job(), state=JobState.LOST)]
    for node in nodes:
        node.checkpoints, node.manifest = [saved()], manifest().to_dict()
    return nodes


def test_a_checkpoint_prints_its_steps_on_stderr_and_its_result_on_stdout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage(monkeypatch, tmp_path, *two())
    assert invoke(["checkpoint", "llm"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("llm 2026")
    assert out.count("\n") == 1
    assert "gpu001 llm dump 0.10 s\n" in err
    assert err.endswith("next: gpuguard checkpoints list llm\n")


def test_quiet_leaves_the_result_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage(monkeypatch, tmp_path, *two())
    assert invoke(["checkpoint", "llm", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_partly_failed_is_3_and_json_stays_alone_on_stdout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two(Script(fail_at="dump"))
    second.jobs = [running_job("eval")]
    stage(monkeypatch, tmp_path, first, second)
    assert invoke(["checkpoint", "llm", "eval", "-o", "json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert [item["exit_code"] for item in told["items"]] == [1, 0]
    assert told["items"][0]["error"]["hint"] == "mend it"


@pytest.mark.parametrize("verb", ["restore", "migrate"])
def test_without_a_terminal_and_without_yes_nothing_is_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str
) -> None:
    nodes = lost() if verb == "restore" else two()
    stage(monkeypatch, tmp_path, *nodes)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="nobody to ask") as caught:
        invoke([verb, "llm"])
    assert caught.value.hint is not None and "--yes" in caught.value.hint
    assert not any(node.procedures for node in nodes)


@pytest.mark.parametrize(("answer", "begun"), [("y\n", True), ("\n", False), ("no\n", False)])
def test_a_person_is_shown_the_plan_and_asked(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    begun: bool,
) -> None:
    nodes = two()
    stage(monkeypatch, tmp_path, *nodes)
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    if begun:
        assert invoke(["migrate", "llm"]) == 0
    else:
        with pytest.raises(UsageError, match="nothing was changed"):
            invoke(["migrate", "llm"])
    out, err = capsys.readouterr()
    assert "give-away: write down on gpu001 that llm belongs to gpu002" in err
    assert bool(nodes[0].procedures) is begun
    assert out == ("llm runs on gpu002, moved from gpu001\n" if begun else "")


def test_no_input_asks_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage(monkeypatch, tmp_path, *two())
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    with pytest.raises(UsageError, match="nobody to ask"):
        invoke(["migrate", "llm", "--no-input"])


@pytest.mark.parametrize("words", [["checkpoint", "llm"], ["migrate", "llm"], ["restore", "llm"]])
def test_a_dry_run_prints_the_plan_and_begins_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    nodes = lost() if words[0] == "restore" else two()
    stage(monkeypatch, tmp_path, *nodes)
    assert invoke([*words, "--dry-run", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "gpuguard.plan/1"
    assert shown["verb"] == words[0]
    assert [step["name"] for step in shown["steps"]]
    assert not any(node.procedures for node in nodes)


def test_a_refused_dry_run_says_why_and_is_5(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = lost()
    nodes[0].dead = True
    stage(monkeypatch, tmp_path, *nodes)
    assert invoke(["restore", "llm", "-n"]) == 5
    assert "unreachable is not dead" in capsys.readouterr().out


def test_a_restore_by_the_typed_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = lost()
    nodes[0].dead = True
    stage(monkeypatch, tmp_path, *nodes)
    assert invoke(["restore", "llm", "--assume-dead", "gpu001", "--yes"]) == 0
    out, err = capsys.readouterr()
    assert out == "llm runs on gpu002, from checkpoint 20260131T120000Z-aaaaaa\n"
    assert "warning: gpu001: only your word" in err


def test_jobs_list_is_a_plain_table_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = two()
    nodes[0].jobs = [running_job(spec=dataclasses.replace(running_job().spec, command=("a\x1bb",)))]
    nodes[1].dead = True
    stage(monkeypatch, tmp_path, *nodes)
    assert invoke(["jobs", "list"]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == [
        *("HOST", "JOB", "STATE", "EPOCH", "PROCESSES", "AGE", "POLICY", "COMMAND")
    ]
    assert "a\\x1bb" in out
    assert "error: gpu002: connection refused" in err


def test_the_last_durable_checkpoint_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage(monkeypatch, tmp_path, *lost())
    with pytest.raises(RefusedError, match="last durable checkpoint"):
        invoke(["checkpoints", "rm", "llm", saved().checkpoint, "--yes"])


def test_a_name_that_has_to_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("x", "reset", ("llm",), (), confirm=Confirm.TYPE_NAME, confirm_name="gpu001")
    monkeypatch.setattr("sys.stdin", Terminal("gpu002\n"))
    with pytest.raises(UsageError, match="not confirmed"):
        agree(plan, yes=False)
    monkeypatch.setattr("sys.stdin", Terminal("gpu001\n"))
    agree(plan, yes=False)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress("gpu001", "dump", "done", "", "llm", 0.561), "gpu001 llm dump 0.56 s"),
        (Progress("gpu001", "dump", "failed", "no room", "llm"), "gpu001 llm dump failed: no room"),
        (Progress("gpu001", "copy", "lost", "silent"), "gpu001 copy lost: silent"),
        (Progress("gpu001", "copy", "failed", "\x1b[2J"), "gpu001 copy failed: \\x1b[2J"),
    ],
)
def test_one_line_a_step(progress: Progress, text: str) -> None:
    assert line(progress) == text


def test_words_between_the_two_sides_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter() as reporter:
        reporter.show(Progress("gpu001", "give-away", "told", "give_away", "llm"))
        reporter.show(Progress("gpu001", "give-away", "done", "", "llm", 0.1))
    assert capsys.readouterr().err == "gpu001 llm give-away 0.10 s\n"


@pytest.mark.parametrize(
    ("code", "text", "ended"),
    [
        (0, "llm exited on gpu001 with code 0\n", 0),
        (7, "llm exited on gpu001 with code 7\n", 1),
        (-9, "llm was ended on gpu001 by SIGKILL\n", 1),
        (None, "llm ended on gpu001, with an exit code nobody knows\n", 1),
    ],
)
def test_a_job_that_ends_at_once_is_told_with_its_code(
    capsys: pytest.CaptureFixture[str], code: int | None, text: str, ended: int
) -> None:
    job = running_job(state=JobState.EXITED, exit_code=code, root=None)
    assert jobs._print_started("gpu001", job, Format.TABLE) == ended
    assert capsys.readouterr() == (text, "next: gpuguard jobs logs llm\n")


def test_old_records_of_a_job_that_lives_elsewhere_are_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = two()
    moved = running_job(state=JobState.MOVED, root=None)
    gone = running_job("gone", state=JobState.LOST, root=None)
    ended = running_job("eval", state=JobState.EXITED, exit_code=7, root=None)
    nodes[0].jobs = [moved, gone, ended]
    nodes[1].jobs = [running_job(epoch=2)]
    stage(monkeypatch, tmp_path, *nodes)
    assert invoke(["jobs", "list"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:4] for line in out.splitlines()[1:]] == [
        ["gpu001", "gone", "lost", "1"],
        ["gpu001", "eval", "exited", "7"],
        ["gpu002", "llm", "running", "2"],
    ]
    assert err == "1 old record hidden: --all\n"
    assert invoke(["jobs", "list", "--all"]) == 0
    out, err = capsys.readouterr()
    assert out.count("moved") == 1
    assert err == ""
    assert invoke(["jobs", "list", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 4


def test_a_shown_job_has_its_words_quoted_and_cannot_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = two()
    command = ("sh", "-c", "echo a\x1bb")
    nodes[0].jobs = [running_job(spec=dataclasses.replace(running_job().spec, command=command))]
    stage(monkeypatch, tmp_path, *nodes)
    for words in (["jobs", "show", "llm"], ["jobs", "list"]):
        assert invoke(words) == 0
        assert "sh -c 'echo a\\x1bb'\n" in capsys.readouterr().out


@pytest.mark.parametrize("kept", [True, False])
def test_an_ended_job_is_restored_only_from_a_checkpoint_that_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: bool
) -> None:
    nodes = two()
    nodes[0].jobs = [running_job(state=JobState.EXITED, exit_code=7, root=None)]
    for node in nodes:
        node.checkpoints = [saved()] if kept else []
    stage(monkeypatch, tmp_path, *nodes)
    with pytest.raises(RefusedError) as caught:
        invoke(["checkpoint", "llm"])
    assert caught.value.hint == f"gpuguard {'restore' if kept else 'jobs logs'} llm"


def test_several_jobs_are_stopped_though_one_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = two()
    nodes[1].jobs = [running_job("eval")]
    stage(monkeypatch, tmp_path, *nodes)
    asked: list[str] = []

    def end(desk: Desk, name: str, host: str | None, grace: float | None) -> Placed:
        del desk, host, grace
        asked.append(name)
        if name == "none":
            raise UsageError("none: no host knows a job of this name", "gpuguard jobs list")
        return Placed("gpu001", running_job(name, state=JobState.EXITED, exit_code=-15))

    monkeypatch.setattr("gpuguard.running.jobs.stop", end)
    assert invoke(["jobs", "stop", "llm", "none", "eval", "llm"]) == 3
    assert asked == ["llm", "none", "eval"]
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "llm on gpu001: exited SIGTERM",
        "eval on gpu001: exited SIGTERM",
    ]
    assert err.startswith("error: none: no host knows")
    assert invoke(["jobs", "stop", "llm", "none", "-o", "json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert [item["spec"]["name"] for item in told["items"]] == ["llm"]
    assert [error["job"] for error in told["errors"]] == ["none"]


@pytest.mark.parametrize("word", ["=x", "SEED", ""])
def test_a_wrong_variable_is_quoted_as_typed(word: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--env {shlex.quote(word)}:")) as caught:
        jobs._variables([word])
    assert caught.value.hint == "such as --env SEED=7"
