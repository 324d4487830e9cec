"""Find Xid headers in a line, and read the process that a line names."""

import re
from typing import NamedTuple, Optional

from gpuguard.health.addresses import normal_address
from gpuguard.health.events import Event
from gpuguard.health.stamps import Prefix
from gpuguard.health.xid_text import detail_of, is_cut

# The tracepoint prints no NVRM, but its own name.
HEADER = re.compile(
    rb"(?:NVRM: |nvidia_dev_xid: )Xid \((?:PCI:)?([0-9a-fA-F:.]{5,17})"
    rb"(?: GPU-I:(\d{1,4}))?(?: GPU-CI:(\d{1,4}))?\): (\d{1,6})(?=[,\s]|$)"
)
# A header that is begun and comes to nothing is counted as a reject.
BEGUN = re.compile(rb"NVRM: Xid\b|nvidia-nvswitch\d*: SXid\b")
_NAME_BYTES = 15  # what the kernel keeps of a process name
_PID = re.compile(r"pid=('<unknown>'|-?\d+)(?:, |,|$)")
_UNKNOWN = ("<unknown>", "'<unknown>'")
_STAMP_AFTER = re.compile(r"\s*(?:<\d+>)?\s*\[\s*\d+\.\d+\]\s*(?:\[\s*[TC]\d+\])?\s*$")
# How the texts of the driver begin, for names that hold a comma.
_TEXT = re.compile(
    r"Ch |[Cc]hannel |Class |Contained|Uncontained|GPU |Timeout|Graphics|Row Remap|NVLink|An |"
    r"Dynamic|[A-Z]+[A-Z_0-9]* (?:Fatal|Nonfatal)|[0-9a-fA-F]{8}\b|errorString|Internal|"
    r"\w+ Error|\w+ Exception|MMU|CE\d|PBDMA|SKED|Unrec|unrec|Kernel|Task"
)


class Header(NamedTuple):
    """Where a header lies in its line, and what it says."""

    start: int
    end: int
    pci: str
    gi: Optional[int]
    ci: Optional[int]
    code: int


def headers(line: bytes) -> list[Header]:
    """Return the headers of `line`, from left to right; two writers may share a line."""
    found = []
    for match in HEADER.finditer(line):
        address = normal_address(match[1].decode("ascii"))
        if address is not None:
            gi, ci = (int(part) if part else None for part in match.group(2, 3))
            found.append(Header(match.start(), match.end(), address, gi, ci, int(match[4])))
    return found


def event_of(header: Header, tail: str, number: int, prefix: Prefix) -> Event:
    """Return the event of a header, `tail` being what follows its number."""
    text = _STAMP_AFTER.sub("", tail).strip().removeprefix(",").strip()
    if prefix.repeat > 1 and text.endswith("]"):
        text = text[:-1].rstrip()
    pid, name, rest = process_of(text)
    detail = detail_of(header.code, rest)
    return Event(
        line=number,
        kind="xid",
        pci=header.pci,
        code=header.code,
        text=rest,
        prefix=prefix,
        pid=pid,
        name=name,
        gi=header.gi,
        ci=header.ci,
        detail=detail,
        truncated=is_cut(header.code, rest, detail),
        lines=[number],
    )


def process_of(text: str) -> tuple[Optional[int], Optional[str], str]:
    """Return pid, name and the rest of what follows the number; 0 and unknown are None."""
    match = _PID.match(text)
    pid = None
    if match:
        pid = None if match[1] in _UNKNOWN else int(match[1])
        text = text[match.end() :].lstrip()
    name = None
    if text.startswith("name="):
        name, text = _name(text[len("name=") :])
    return (pid if pid and pid > 0 else None), name, text


def _name(text: str) -> tuple[Optional[str], str]:
    for unknown in _UNKNOWN:
        if text.startswith(unknown):
            return None, text[len(unknown) :].removeprefix(",").lstrip()
    name, rest = _split_name(text)
    return (name or None), rest.lstrip()


def _split_name(text: str) -> tuple[str, str]:
    """Part a name, which may hold anything, from the text after it."""
    ends = [end.start() for end in re.finditer(", ", text) if _fits(text[: end.start()])]
    for end in ends:
        if _TEXT.match(text, end + 2):
            return text[:end], text[end + 2 :]
    if ends:
        return text[: ends[0]], text[ends[0] + 2 :]
    if _fits(text.rstrip(",")):
        return text.rstrip(","), ""
    head, _, rest = text.partition(",")
    return head.encode()[:_NAME_BYTES].decode(errors="replace"), rest


def _fits(name: str) -> bool:
    # A byte that is no text was replaced by a character of three bytes.
    return len(name.replace("\ufffd", "?").encode()) <= _NAME_BYTES
