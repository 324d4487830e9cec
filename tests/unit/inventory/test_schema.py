"""What ships beside the code: the schema for editors and the examples."""

import json
from pathlib import Path

import pytest

from gpuguard.inventory.examples import starter
from gpuguard.inventory.load import parse_inventory, read_inventory
from gpuguard.inventory.schema import json_schema

FOLDER = Path(__file__).resolve().parents[3] / "inventory"


def test_the_shipped_schema_is_current() -> None:
    shipped = (FOLDER / "schema.json").read_text(encoding="utf-8")
    assert shipped == json.dumps(json_schema(), indent=2) + "\n", (
        "run: python scripts/inventory_schema.py"
    )


def test_the_schema_names_every_section_and_forbids_others() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {
        "version",
        "defaults",
        "cordon",
        "stores",
        "policies",
        "groups",
        "hosts",
        "jobs",
    }
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values())


@pytest.mark.parametrize("path", sorted((FOLDER / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_is_valid(path: Path) -> None:
    assert read_inventory(path).inventory.hosts


def test_the_starter_is_valid_also_with_its_comments_taken_away(tmp_path: Path) -> None:
    lines = [
        line.replace("# ", "", 1) if line.lstrip().startswith("# ") and "{" in line else line
        for line in starter().splitlines()
    ]
    text = "\n".join(lines).replace("# stores:", "stores:").replace("# policies:", "policies:")
    text = text.replace("# groups:", "groups:").replace("# jobs:", "jobs:")
    fleet = parse_inventory(text, tmp_path / "i.yaml")
    assert len(fleet.hosts) == 33
    assert fleet.job("llm-7").env == {"SEED": "7"}
    assert fleet.policy("default").store == "shared"
