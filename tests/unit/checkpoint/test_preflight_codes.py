"""The tables of preflight: whole, alike in code and documentation, and used."""

import re
from pathlib import Path

import pytest

from gpuguard.checkpoint.preflight_codes import DUMP, RESTORE, RULES, found, passed
from gpuguard.model.plans import Level

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "preflight.md").read_text()


def source(*rooms: str) -> str:
    paths = [path for room in rooms for path in (ROOT / "gpuguard" / room).rglob("*.py")]
    return "\n".join(path.read_text() for path in paths if not path.name.endswith("_codes.py"))


@pytest.mark.parametrize("code", [*DUMP, *RESTORE])
def test_code_is_documented_word_for_word(code: str) -> None:
    entry = DUMP.get(code) or RESTORE[code]
    assert f"| `{code}` | {entry.level.value} | {entry.meaning} | {entry.remedy} |\n" in PAGE


def test_the_page_names_no_other_code() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:error|warning|info|ok) \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted([*DUMP, *RESTORE])


@pytest.mark.parametrize("rule", RULES)
def test_rule_is_documented(rule: str) -> None:
    assert f"| `{rule}` | {RULES[rule]} |\n" in PAGE


def test_no_code_has_two_meanings_and_every_restore_code_has_a_rule() -> None:
    assert not DUMP.keys() & RESTORE.keys()
    assert not (DUMP.keys() | RESTORE.keys()) & RULES.keys()
    assert {entry.rule for entry in RESTORE.values()} <= RULES.keys()
    assert {entry.rule for entry in DUMP.values()} == {""}


def test_every_code_is_found_somewhere() -> None:
    text = source("agent", "checkpoint")
    unused = {code for code in [*DUMP, *RESTORE] if f'"{code}"' not in text}
    assert unused == {"store-room", "stage-room"}  # built from the place's name
    assert 'f"{what}-room"' in text


def test_remedies_name_the_job_or_the_host() -> None:
    assert "gpuguard jobs show llm" in (found("job-not-running", "llm", "x").remedy or "")
    assert "gpuguard doctor gpu2" in (found("store-unreachable", "gpu2", "x").remedy or "")
    assert found("device", "llm", "x", "do this").remedy == "do this"


def test_unknown_codes_and_rules_are_mistakes() -> None:
    with pytest.raises(KeyError):
        found("nonsense", "llm", "x")
    with pytest.raises(KeyError):
        passed("nonsense", "gpu2", "x")
    assert passed("cpu", "gpu2", "x").level is Level.OK
