"""What is said of a fleet that does not answer."""

import json

import pytest

from tests.command_line import Ask


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list"],
        ["jobs", "show", "llm"],
        ["checkpoint", "llm"],
        ["restore", "llm"],
        ["migrate", "llm"],
        ["jobs", "run", "llm", "--host", "closed", "--", "true"],
    ],
)
def test_a_fleet_that_does_not_answer_is_4(
    ask: Ask, fleet: dict[str, str], words: list[str]
) -> None:
    done = ask(*words, **fleet)
    assert done.returncode == 4, done.stderr
    assert "closed" in done.stderr


def test_a_listing_stays_json_when_hosts_fail(ask: Ask, fleet: dict[str, str]) -> None:
    done = ask("jobs", "list", "-o", "json", "--debug", **fleet)
    listed = json.loads(done.stdout)
    assert listed["schema"] == "gpuguard.jobs/1"
    assert listed["items"] == []
    assert listed["errors"][0]["host"] == "closed"


@pytest.mark.parametrize("wish", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_a_pipe_gets_no_escape_bytes(ask: Ask, fleet: dict[str, str], wish: dict[str, str]) -> None:
    done = ask("jobs", "list", **fleet, **wish)
    assert "\x1b" not in done.stdout + done.stderr


def test_color_can_be_forced_and_forbidden(ask: Ask, fleet: dict[str, str]) -> None:
    assert "\x1b[31merror" in ask("jobs", "list", "--color", "always", **fleet).stderr
    forbidden = ask("jobs", "list", "--color=always", "--no-color", **fleet)
    assert "\x1b" not in forbidden.stderr
