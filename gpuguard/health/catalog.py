"""The catalogs of Xid and SXid numbers: loaded when first asked, and aware of the driver branch."""

import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any, Optional

from gpuguard.health.drivers import branch, version

Row = Mapping[str, Any]


@cache
def table(name: str) -> Mapping[str, Any]:
    """Return the shipped table `name`: xid, nvlink5 or sxid.

    Raises:
        FileNotFoundError: the installation lacks the file.
    """
    data = pkgutil.get_data("gpuguard.health", f"data/{name}.json")
    if data is None:
        raise FileNotFoundError(f"gpuguard/health/data/{name}.json is missing")
    loaded: Mapping[str, Any] = json.loads(data)
    return loaded


def xid_row(code: int, driver: Optional[str] = None) -> Optional[Row]:
    """Return what Xid `code` means under `driver`, None for a number that is not known.

    A row that was followed to another number has that number's content and `printed_as`.
    """
    row: Optional[Row] = table("xid")["codes"].get(str(code))
    other = _other_meaning(row, driver) if row else None
    if row is None or other is None:
        return row
    if "see" not in other:
        return None
    target: Row = table("xid")["codes"][str(other["see"])]
    return {**target, "printed_as": code}


def sxid_row(code: int, driver: Optional[str] = None, text: str = "") -> Optional[Row]:
    """Return what SXid `code` means under `driver`; without one `text` may tell the numbering."""
    row: Optional[Row] = table("sxid")["codes"].get(str(_renumbered(code, driver, text)))
    return row


def near_codes(code: int, count: int = 3) -> list[int]:
    """Return the known Xid or SXid numbers next to `code`."""
    kind = "sxid" if code >= 10000 else "xid"
    known = sorted(map(int, table(kind)["codes"]), key=lambda other: abs(other - code))
    return sorted(known[:count])


def action_meaning(word: str) -> str:
    """Return what an action's word of either catalog means, in a sentence."""
    found = table("xid")["head"]["actions"].get(word) or table("sxid")["head"]["actions"].get(word)
    return str(found or word)


def action_rank(word: str) -> int:
    """Return how hard an Xid action is, 0 to 6; -1 where that is not known yet."""
    rank = table("xid")["head"]["ranks"].get(word)
    return -1 if rank is None else int(rank)


def _other_meaning(row: Row, driver: Optional[str]) -> Optional[Row]:
    """Return the meaning that `driver` gives the number, None for the usual one."""
    meanings = row.get("branch_meanings")
    if not meanings or driver is None or version(driver) is None:
        return None
    for meaning in meanings:
        if _covers(meaning["branches"], driver):
            return None if meaning["name"] == row["name"] else meaning
    return None


def _covers(branches: str, driver: str) -> bool:
    """Tell whether words such as `550.40.63 to 550.163.01` or `560 and later` hold `driver`."""
    asked = version(driver) or ()
    words = branches.split()
    first = version(words[0]) or ()
    if "to" in words:
        return first <= asked <= (version(words[-1]) or ())
    if "later" in words:
        bound = words[-1] if words[-1].endswith(".x") else None
        return asked >= first and (bound is None or branch(driver) == int(bound[:-2]))
    return branch(driver) == first[0]


_MOVED = {28: 29, 29: 30}  # families whose numbers moved by a thousand at driver 550
_OLD_TEXTS = {28: ("MC ",), 29: ("Red ",)}


def _renumbered(code: int, driver: Optional[str], text: str) -> int:
    family, rest = divmod(code, 1000)
    if family not in _MOVED or not 1 <= rest <= 6:
        return code
    known = branch(driver)
    if known is not None:
        return code + 1000 if known <= 545 else code
    return code + 1000 if text.startswith(_OLD_TEXTS[family]) else code
