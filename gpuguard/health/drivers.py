"""Driver versions as the kernel and people write them."""

import re
from functools import lru_cache
from typing import Optional

_VERSION = re.compile(r"\s*[vVrR]?(\d{2,4}(?:\.\d+){0,3})")


@lru_cache(maxsize=64)
def version(text: str) -> Optional[tuple[int, ...]]:
    """Return a version such as 550.163.01 as numbers, None if `text` does not begin with one."""
    match = _VERSION.match(text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def branch(driver: Optional[str]) -> Optional[int]:
    """Return the branch, such as 550, of a driver's version; None where it is not known."""
    found = version(driver) if driver else None
    return found[0] if found else None
