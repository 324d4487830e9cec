"""The frame of the command line: help, mistakes, errors as text and as JSON, exit codes."""

import json

import pytest

from gpuguard.commands.options import hoist
from gpuguard.commands.table import COMMANDS
from tests.command_line import Ask


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_has_help_with_examples(ask: Ask, row: object) -> None:
    name = getattr(row, "name", "")
    done = ask(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Examples:" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_no_line_of_a_groups_help_is_cut(ask: Ask, row: object) -> None:
    lines = ask(getattr(row, "name", ""), "--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in lines[1:] if line.endswith("...")] == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["chekpoint"], "did you mean: gpuguard checkpoint"),
        (["ps"], "did you mean: gpuguard jobs list?"),
        (["status", "--all"], "did you mean: gpuguard jobs list?"),
        (["checkpoint"], "Missing argument"),
        (["--colour", "never"], "No such option"),
        (["jobs", "lst"], "lst"),
        (["jobs", "list", "-o", "yaml"], "yaml"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_a_wrong_line_is_2_with_a_hint(ask: Ask, words: list[str], text: str) -> None:
    done = ask(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert text in done.stderr


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        (["inventory", "import"], "Choose from: ssh-config, ansible, hosts\n"),
        (["completion"], "Choose from: bash, zsh, fish\n"),
    ],
)
def test_a_usage_error_is_one_line(ask: Ask, words: list[str], choices: str) -> None:
    first, second = ask(*words).stderr.splitlines(keepends=True)
    assert first.startswith("error: Missing ")
    assert first.endswith(choices)
    assert second.startswith("hint: ")


def test_no_arguments_show_the_help_and_are_2(ask: Ask) -> None:
    done = ask()
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: gpuguard")


def test_an_error_in_json_is_an_object_alone_on_stdout(ask: Ask) -> None:
    done = ask("jobs", "list", "-o", "json", "--debug", GPUGUARD_INVENTORY="/nonexistent.yaml")
    told = json.loads(done.stdout)
    assert told["schema"] == "gpuguard.error/1"
    assert told["code"] == done.returncode == 2
    assert told["error"]["kind"] == "usage"
    assert "Traceback" in done.stderr


def test_a_traceback_is_shown_with_debug_alone(ask: Ask) -> None:
    done = ask("jobs", "list", GPUGUARD_INVENTORY="/nonexistent.yaml")
    assert "Traceback" not in done.stderr
    assert "nonexistent.yaml" in done.stderr


def test_unknown_hosts_are_2_with_the_nearest(ask: Ask, fleet: dict[str, str]) -> None:
    done = ask("jobs", "run", "llm", "--host", "close", "--", "true", **fleet)
    assert done.returncode == 2
    assert "did you mean closed" in done.stderr


def test_global_options_may_stand_anywhere_before_a_bare_dash() -> None:
    line = ["jobs", "run", "x", "--debug", "-i", "f", "--color=never", "--", "cmd", "--debug"]
    assert hoist(line) == [
        *("--debug", "-i", "f", "--color=never"),
        *("jobs", "run", "x", "--", "cmd", "--debug"),
    ]
