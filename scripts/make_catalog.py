"""Make the catalogs that are shipped out of the facts: python scripts/make_catalog.py XID SXID.

    python scripts/make_catalog.py tests/data/xid.yaml tests/data/sxid.yaml

The schema is checked first; the output is the same for the same facts, one line a code, so that a
change of the facts shows as a small difference.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).resolve().parent.parent / "gpuguard" / "health" / "data"
_XID_CODE = {
    "code": int,
    "name": str,
    "short": str,
    "meaning": str,
    "scope": str,
    "severity": str,
    "action": str,
    "investigate": str,
    "live_checkpoint": str,
    "causes": list,
    "sources": list,
    "action_basis": str,
    "generations_note": str,
}
_SXID_CODE = {
    "code": int,
    "name": str,
    "family": str,
    "meaning": str,
    "action": str,
    "action_basis": str,
    "driver_severity": dict,
    "sources": list,
}
_RULE = {"xid": int, "unit": str, "unit_v2": str, "v1": dict, "v2": dict, "action": str}


class SchemaError(Exception):
    """The facts do not look as expected; the text says where."""


def xid_tables(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the files made of the Xid facts, name to content; raises SchemaError."""
    words = facts["vocabulary"]
    _expect(facts.get("schema") == 1 and facts.get("kind") == "xid_catalog", "kind of the file")
    for row in facts["codes"]:
        _check_row(row, _XID_CODE, f"Xid {row.get('code')}")
        _check_words(row, words, facts["sources"])
    _unique([row["code"] for row in facts["codes"]], "Xid")
    for number, rule in enumerate(facts["nvlink5"]["rules"]):
        _check_row(rule, _RULE, f"NVLink5 rule {number}")
        _expect(rule["action"] in words["action"], f"NVLink5 rule {number}: action")
    actions = {name: row["meaning"] for name, row in words["action"].items()}
    ranks = {name: row["rank"] for name, row in words["action"].items()}
    keep = ("sources", "precedence", "recovery_actions", "workflows", "containment")
    head = {key: facts[key] for key in (*keep, "branch_rules", "collected")}
    head |= {"actions": actions, "ranks": ranks, "live_checkpoint": words["live_checkpoint"]}
    rules = {key: value for key, value in facts["nvlink5"].items() if key != "rules"}
    return {
        "xid.json": {"head": head, "codes": _by_code(facts["codes"])},
        "nvlink5.json": {"head": rules, "rules": facts["nvlink5"]["rules"]},
    }


def sxid_tables(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the file made of the SXid facts, name to content; raises SchemaError."""
    _expect(facts.get("schema") == 1 and facts.get("kind") == "sxid_catalog", "kind of the file")
    words = facts["vocabulary"]
    for row in facts["codes"]:
        _check_row(row, _SXID_CODE, f"SXid {row.get('code')}")
        known = set(row["sources"]) <= set(facts["sources"])
        _expect(known and row["action"] in words["action"], f"SXid {row['code']}: action, sources")
        _expect(row.get("guide_class") in {None, *words["guide_class"]}, f"SXid {row['code']}")
    _unique([row["code"] for row in facts["codes"]], "SXid")
    keep = ("sources", "applies_to", "rules", "numbering", "families", "disagreements", "collected")
    head = {key: facts[key] for key in keep} | {"actions": words["action"]}
    return {"sxid.json": {"head": head, "codes": _by_code(facts["codes"])}}


def _check_words(row: dict[str, Any], words: dict[str, Any], sources: dict[str, Any]) -> None:
    for key in ("scope", "severity", "live_checkpoint", "action"):
        _expect(row[key] in words[key], f"Xid {row['code']}: {key} {row[key]!r}")
    _expect(row["investigate"] in words["action"], f"Xid {row['code']}: investigate")
    _expect(set(row["causes"]) <= set(words["cause"]), f"Xid {row['code']}: causes")
    _expect(set(row["sources"]) <= set(sources), f"Xid {row['code']}: sources")


def _check_row(row: dict[str, Any], shape: dict[str, type], name: str) -> None:
    for key, kind in shape.items():
        _expect(isinstance(row.get(key), kind), f"{name}: {key} is no {kind.__name__}")


def _unique(codes: list[int], kind: str) -> None:
    twice = sorted({code for code in codes if codes.count(code) > 1})
    _expect(not twice, f"{kind} codes stand twice: {twice}")


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise SchemaError(what)


def _by_code(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(rows, key=lambda row: int(row["code"]))
    return {
        str(row["code"]): {key: value for key, value in row.items() if value is not None}
        for row in ordered
    }


def text(content: dict[str, Any]) -> str:
    """Return `content` as JSON with one line for each row of its second level."""
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            rows = ",\n".join(_compact(row) for row in value)
            parts.append(f"{_compact(key)}:[\n{rows}\n]")
        else:
            rows = ",\n".join(f"{_compact(name)}:{_compact(row)}" for name, row in value.items())
            parts.append(f"{_compact(key)}:{{\n{rows}\n}}")
    return "{" + ",\n".join(parts) + "}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tables(xid: Path, sxid: Path) -> dict[str, str]:
    """Return what is shipped for the two files of facts, name to text; raises SchemaError."""
    made = xid_tables(_read(xid)) | sxid_tables(_read(sxid))
    return {name: text(content) for name, content in made.items()}


def _read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    return loaded


def main() -> None:
    """Write the catalogs beside the code that reads them."""
    parser = argparse.ArgumentParser(description="Make the shipped catalogs out of the facts.")
    parser.add_argument("xid", type=Path)
    parser.add_argument("sxid", type=Path)
    options = parser.parse_args()
    for name, content in tables(options.xid, options.sxid).items():
        (TARGET / name).write_text(content, encoding="utf-8")
        print(f"{name}: {len(content.encode())} bytes")


if __name__ == "__main__":
    main()
