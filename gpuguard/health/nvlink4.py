"""Decode the seven registers of an NVLink error before NVLink 5 (Xid 74)."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gpuguard.health.catalog import action_rank, table

REPEATS = 2  # corrected errors on one link that are still let pass
# kind of bit: action, and what to look at
_MEANINGS = {
    "ignore": ("none", "none"),
    "side_effect": ("follow_primary_fault", "follow_primary_fault"),
    "ecc_repeat": ("none", "contact_support_if_repeated"),
    "mechanical": ("check_mechanicals", "contact_support"),
    "marginal_signal": ("none", "check_mechanicals"),
    "repeat_report": ("none", "contact_support_if_repeated"),
    "repeat_diag": ("none", "contact_support_if_repeated"),
    "unexpected": ("none", "contact_support"),
    "fabric_reset": ("reset_fabric", "contact_support"),
    "threshold_only": ("none", "none"),
    "otherwise": ("contact_support", "contact_support"),
}


def kinds_of(bits: Mapping[str, list[int]]) -> list[str]:
    """Return the kinds of the bits that are set, each once; no bits at all are `otherwise`."""
    found = [_kinds().get((register, bit), "otherwise") for register, bit in _set(bits)]
    return sorted(set(found)) or ["otherwise"]


def judge_bits(bits: Mapping[str, list[int]]) -> tuple[str, str]:
    """Return the action and the look that the registers ask for; the strongest bit decides."""
    meanings = [_MEANINGS[kind] for kind in kinds_of(bits)]
    # An unexplained bit is less than one that names a remedy.
    ranked = [pair for pair in meanings if pair[0] != "contact_support"] or meanings
    action = max((pair[0] for pair in ranked), key=_weight)
    return action, max((pair[1] for pair in meanings), key=action_rank)


def _weight(word: str) -> tuple[int, bool]:
    return 4 if word == "reset_fabric" else action_rank(word), word != "none"


def _set(bits: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
    for register, places in bits.items():
        for bit in places:
            yield register, bit


@cache
def _kinds() -> dict[tuple[str, int], str]:
    flow: Mapping[str, Any] = table("xid")["head"]["workflows"]["workflow_xid_74"]
    found: dict[tuple[str, int], str] = {}
    for key, groups in flow.items():
        if key.startswith("register_"):
            for kind, bits in groups.items():
                places = bits["bits"] if isinstance(bits, dict) else bits
                found.update({(key.removeprefix("register_"), bit): kind for bit in places})
    return found
