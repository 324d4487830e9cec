"""What the text after an Xid number says, by number: units, links, channels, flags."""

import re
from collections.abc import Callable
from typing import Any, Optional

Detail = dict[str, Any]
_HEX = r"(?:0[xX])?([0-9a-fA-F]+)"
_CHANNEL = re.compile(rf"\b(?:Ch|channel|Channel ID|ChId|ChID|Channel)\s+{_HEX}\b")
_PREVIOUS = re.compile(r"caused by previous Xid (\d+)")
_SM = re.compile(r"\(GPC (\d+), TPC (\d+)(?:, SM (\d+))?\)")
_EXCEPTION = re.compile(r"(Warp|Global) Exception(?: on)?[^:]*:\s*(.+)")
_ENGINE = re.compile(r"ENGINE (\S+)")
_GPC = re.compile(r"\bGPC(\d+)\b")
_CLIENT = re.compile(r"\b((?:GPC|HUB)CLIENT_\w+)")
_FAULT_AT = re.compile(r"faulted @ (0x[0-9a-fA-F_]+)")
_FAULT = re.compile(r"\b(FAULT_\w+)")
_ACCESS = re.compile(r"\b(ACCESS_TYPE_\w+)")
_INFO = re.compile(r"\bInfo (0x[0-9a-fA-F]+)")
_ERROR_STRING = re.compile(r"errorString ([^,]+)")
_PHYSICAL = re.compile(r"physAddr:?\s*(0x[0-9a-fA-F]+)")
_PARTITION = re.compile(r"\bpartition (\d+)")
_SUBPARTITION = re.compile(r"\bsubpartition (\d+)")
_FBPA = re.compile(r"\bFBPA (\d+)")
_ON_GPU_IN = re.compile(r"\bon GPU in (?:the )?([\w -]+?)(?: at| partition|,|\.|$)")
_ROW = re.compile(r"\((0x[0-9a-fA-F]+)\)")
_LINK = re.compile(r"\blink\s+(-?\d+)\b", re.IGNORECASE)
_WORDS = re.compile(r"\((0x[0-9a-fA-F]+(?:\s*,\s*0x[0-9a-fA-F]+)*)")
_CONTAINMENT = re.compile(r"\b(Contained|Uncontained):\s*([^(.]+?)\s*(?:\(([^)]*)\))?\s*(?:\.|,|$)")
_FLAG = re.compile(r"(?<!-)\bRST:\s*(Yes|No)", re.IGNORECASE)
_DRAIN_FLAG = re.compile(r"\bD-RST:\s*(Yes|No)", re.IGNORECASE)
_WAIT = re.compile(r"Timeout after (\d+)\s*s")
_GPU_INSTANCE = re.compile(r"\bGPU(\d+)\b")
_FUNCTION = re.compile(
    r"function (\d+) \((\w+)\)(?: sequence (\d+))?"
    r"(?:\s*\((0x[0-9a-fA-F]+)[ ,]+(0x[0-9a-fA-F]+)\))?"
)
_GSP_TASK = re.compile(r"\btask[:\s]*(\w+)", re.IGNORECASE)
_GSP_CAUSE = re.compile(r"\bcause[:\s]*(0x[0-9a-fA-F]+|\w+)", re.IGNORECASE)
_GSP_PC = re.compile(r"\bpc[:\s]*(0x[0-9a-fA-F]+)", re.IGNORECASE)
_GSP_PARTITION = re.compile(r"\bpartition[:#\s]*(\d+)", re.IGNORECASE)
_COUNTS = re.compile(r"\b(DRAM|LTC|MMU|PCIE)\b[\s:=(]*(\d+)")
_RECOVERY = re.compile(r"changed from (0x[0-9a-fA-F]+|\d+)[^)]*\)? to (0x[0-9a-fA-F]+|\d+)")
_UNIT_FIRST = re.compile(r"([A-Z][\w ]*?)\s*(?:,|\(|:|$)")


def detail_of(code: int, text: str) -> Detail:
    """Return what `text`, which follows the process of an Xid line, says for `code`."""
    detail: Detail = {}
    channel = _CHANNEL.search(text)
    if channel:
        detail["channel"] = int(channel[1], 16)
    previous = _PREVIOUS.search(text)
    if previous:
        detail["previous_xid"] = int(previous[1][:6])
    reader = _READERS.get(code)
    if reader is not None:
        detail.update(reader(text))
    return detail


def is_cut(code: int, text: str, detail: Detail) -> bool:
    """Tell whether the line ends before its text does."""
    if text.count("(") > text.count(")"):
        return True
    return code == 154 and detail.get("recovery_to") is None


def _exception(text: str) -> Detail:
    detail: Detail = {}
    place = _SM.search(text)
    if place:
        detail.update(gpc=int(place[1]), tpc=int(place[2]), sm=_int(place[3]))
    if re.search(r"\bESR\b", text):
        detail["esr"] = True
    kind = _EXCEPTION.search(text)
    if kind:
        detail.update(exception=kind[1].lower(), reason=kind[2].strip())
    return detail


def _page_fault(text: str) -> Detail:
    detail = _found(
        text,
        engine=_ENGINE,
        client=_CLIENT,
        address=_FAULT_AT,
        fault=_FAULT,
        access=_ACCESS,
    )
    gpc = _GPC.search(text)
    return {**detail, "gpc": int(gpc[1])} if gpc else detail


def _channel_error(text: str) -> Detail:
    return _found(text, info=_INFO, error_string=_ERROR_STRING)


def _memory(text: str) -> Detail:
    detail = _found(text, phys_addr=_PHYSICAL)
    for key, pattern in (("partition", _PARTITION), ("subpartition", _SUBPARTITION)):
        match = pattern.search(text)
        if match:
            detail[key] = int(match[1])
    unit = _ON_GPU_IN.search(text)
    if unit and "framebuffer" not in unit[1]:
        detail["unit"] = unit[1].strip()
    if "framebuffer" in text.lower():
        detail["memory"] = "dram"
    elif unit:
        detail["memory"] = "sram"
    return detail


def _dram(text: str) -> Detail:
    fbpa = _FBPA.search(text)
    found = {"fbpa": int(fbpa[1])} if fbpa else {}
    return {**_memory(text), **found, "memory": "dram"}


def _sram(text: str) -> Detail:
    unit = _UNIT_FIRST.match(text)
    found = {"unit": unit[1].strip()} if unit else {}
    return {**found, **_memory(text), "memory": "sram"}


def _repair(text: str) -> Detail:
    low = text.lower()
    page = "page" in low
    row = _ROW.search(text)
    detail: Detail = {"row": row[1]} if row and not page else {}
    if page and row:
        detail["page"] = row[1]
    failed = ("error" in low and "row remapper" in low) or "fail" in low or "all reserved" in low
    if failed or "unable" in low:
        detail["memory_repair"] = "failed"
    elif "remapp" in low:
        detail["memory_repair"] = "row_marked"
    elif page:
        detail["memory_repair"] = "page_retired"
    return detail


def _link(text: str) -> Detail:
    detail: Detail = {}
    link = _LINK.search(text)
    if link:
        detail["link"] = int(link[1])
    words = _WORDS.search(text)
    registers = re.split(r"\s*,\s*", words[1]) if words else []
    if len(registers) > 1:
        detail["registers"] = registers
        detail["bits"] = register_bits(registers)
    return detail


def register_bits(registers: list[str]) -> dict[str, list[int]]:
    """Return the bits set in each register that is not zero, by its place counted from 1."""
    values = ((place, int(word, 16)) for place, word in enumerate(registers, 1))
    return {
        str(place): [bit for bit in range(value.bit_length()) if value >> bit & 1]
        for place, value in values
        if value
    }


def _containment(text: str) -> Detail:
    detail = _found(text, phys_addr=_PHYSICAL)
    match = _CONTAINMENT.search(text)
    if match:
        arguments = [part.strip() for part in (match[3] or "").split(",") if part.strip()]
        detail.update(contained=match[1] == "Contained", unit=match[2], unit_args=arguments)
    for key, pattern in (("rst", _FLAG), ("drst", _DRAIN_FLAG)):
        flag = pattern.search(text)
        if flag:
            detail[key] = flag[1].lower() == "yes"
    return detail


def _gsp_timeout(text: str) -> Detail:
    detail: Detail = {}
    wait = _WAIT.search(text)
    if wait:
        detail["wait_s"] = int(wait[1])
    instance = _GPU_INSTANCE.search(text)
    if instance:
        detail["rm_gpu"] = int(instance[1])
    function = _FUNCTION.search(text)
    if function:
        detail.update(function=int(function[1]), function_name=function[2])
        if function[3]:
            detail["sequence"] = int(function[3])
        if function[4]:
            detail["data"] = [function[4], function[5]]
    return detail


def _gsp_crash(text: str) -> Detail:
    return _found(text, task=_GSP_TASK, cause=_GSP_CAUSE, pc=_GSP_PC, gsp_partition=_GSP_PARTITION)


def _counts(text: str) -> Detail:
    return {name.lower(): int(count) for name, count in _COUNTS.findall(text)}


def _recovery(text: str) -> Detail:
    match = _RECOVERY.search(text)
    return {
        "recovery_from": int(match[1], 0) if match else None,
        "recovery_to": int(match[2], 0) if match else None,
    }


def _hex_words(text: str) -> Detail:
    words = re.findall(r"\b[0-9a-fA-F]{8}\b", text)
    return {"words": words} if words else {}


def _found(text: str, **patterns: "re.Pattern[str]") -> Detail:
    found = ((key, pattern.search(text)) for key, pattern in patterns.items())
    return {key: match[1].strip() for key, match in found if match}


def _int(text: Optional[str]) -> Optional[int]:
    return None if text is None else int(text)


_READERS: dict[int, Callable[[str], Detail]] = {
    13: _exception,
    31: _page_fault,
    32: _channel_error,
    48: _memory,
    62: _hex_words,
    63: _repair,
    64: _repair,
    69: _channel_error,
    74: _link,
    94: _containment,
    95: _containment,
    109: _channel_error,
    119: _gsp_timeout,
    120: _gsp_crash,
    136: _link,
    137: _link,
    140: _counts,
    154: _recovery,
    171: _dram,
    172: _sram,
}
