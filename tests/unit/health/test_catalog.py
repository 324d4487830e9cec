"""What is shipped is what the facts say, for every driver branch, and every word has a remedy."""

import copy
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuguard.health.catalog import near_codes, sxid_row, table, xid_row
from gpuguard.health.remedies import recovery_word, remedy_of, words
from gpuguard.model.actions import Action

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests/data"
SHIPPED = ROOT / "gpuguard/health/data"


@cache
def loaded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((DATA / name).read_bytes(), Loader=yaml.CSafeLoader)
    return found


def facts(name: str) -> dict[str, Any]:
    return copy.deepcopy(loaded(name))


@cache
def maker() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/make_catalog.py"))


def test_shipped_tables_are_made_of_the_facts() -> None:
    made = maker()["tables"](DATA / "xid.yaml", DATA / "sxid.yaml")
    assert sorted(made) == sorted(path.name for path in SHIPPED.iterdir())
    for name, text in made.items():
        assert (SHIPPED / name).read_text() == text, f"{name} is stale: run scripts/make_catalog.py"


@pytest.mark.parametrize(
    ("key", "value"), [("scope", "planet"), ("action", "pray"), ("sources", ["hearsay"])]
)
def test_facts_out_of_schema_are_refused(key: str, value: object) -> None:
    made = maker()
    wrong = facts("xid.yaml")
    wrong["codes"][3][key] = value
    with pytest.raises(made["SchemaError"], match="Xid 4"):
        made["xid_tables"](wrong)


def test_a_code_that_stands_twice_is_refused() -> None:
    made = maker()
    wrong = facts("sxid.yaml")
    wrong["codes"].append(wrong["codes"][0])
    with pytest.raises(made["SchemaError"], match="twice"):
        made["sxid_tables"](wrong)


def test_every_word_of_the_vocabularies_has_a_remedy() -> None:
    known = set(facts("xid.yaml")["vocabulary"]["action"])
    known |= set(facts("sxid.yaml")["vocabulary"]["action"])
    known |= set(facts("reset_cases.yaml")["vocabulary"]["actions"])
    assert known == set(words())
    assert {remedy_of(word).action for word in known} == set(Action)


def test_every_recovery_action_has_the_word_of_the_facts() -> None:
    values = facts("xid.yaml")["recovery_actions"]["values"]
    assert {row["value"]: row["action"] for row in values} == {
        row["value"]: recovery_word(row["value"]) for row in values
    }
    assert recovery_word(len(values)) is None


def test_rank_follows_the_facts() -> None:
    ranks = [action.rank for action in Action]
    assert ranks == sorted(ranks)
    for name, row in facts("xid.yaml")["vocabulary"]["action"].items():
        if row["needs_gpu_empty"]:
            assert remedy_of(name).action.rank >= Action.RESET_GPU.rank, name


@pytest.mark.parametrize(
    ("code", "driver", "name"),
    [
        (144, None, "NVLINK_SAW_ERROR"),
        (144, "550.127.05", "ROBUST_CHANNEL_KEY_ROTATION_ERROR"),
        (144, "550.40.62", "NVLINK_SAW_ERROR"),
        (144, "570.124.06", "NVLINK_SAW_ERROR"),
        (139, "535.183.01", "ROBUST_CHANNEL_FAST_PATH_ERROR"),
        (139, "560.35.03", "ROBUST_CHANNEL_OFA1_ERROR"),
    ],
)
def test_numbers_mean_what_the_branch_says(code: int, driver: str | None, name: str) -> None:
    row = xid_row(code, driver)
    assert row is not None
    assert row["name"] == name


def test_a_reserved_number_is_not_known() -> None:
    assert xid_row(144, "555.42.02") is None
    assert xid_row(180) is None


@pytest.mark.parametrize(
    ("code", "driver", "text", "family"),
    [
        (28006, "535.183.01", "", "multicast"),
        (29006, "545.23.08", "", "reduction"),
        (29006, "550.54.15", "", "multicast"),
        (28003, "550.54.15", "", "osfp_therm"),
        (28006, None, "MC TS crumbstore MCTO", "multicast"),
        (29001, None, "Red TS tag store single-bit threshold", "reduction"),
        (29001, None, "MC TS tag store single-bit threshold", "multicast"),
    ],
)
def test_switch_numbers_moved_at_550(code: int, driver: str | None, text: str, family: str) -> None:
    row = sxid_row(code, driver, text)
    assert row is not None
    assert row["family"] == family


def test_near_codes_are_known_and_near() -> None:
    assert near_codes(180) == [175, 176, 185]
    assert all(code >= 10000 for code in near_codes(99999))
    assert len(table("xid")["codes"]) == len(facts("xid.yaml")["codes"])
