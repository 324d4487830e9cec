"""PCI addresses in all the ways that drivers write them."""

import re
from typing import Optional

_ADDRESS = re.compile(
    r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,4}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?"
)


def normal_address(text: str) -> Optional[str]:
    """Return `text` as dddd:bb:dd.f in lower case, None if it is no PCI address.

    The two-part form of the drivers before 2010 is bus and slot.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    domain, bus, device = (int(part or "0", 16) for part in match.groups()[:3])
    if bus > 0xFF or device > 0x1F:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match[4] or 0}"
