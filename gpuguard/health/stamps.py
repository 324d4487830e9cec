"""What stands before a message: stamps, host, facility, and who passed the line on.

The prefixes of dmesg, journalctl, syslog and /dev/kmsg records are taken off piece by piece; what
remains was put there by some program, and the line counts as relayed.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Optional

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FACILITIES = {"kern": 0, "user": 1, "mail": 2, "daemon": 3, "auth": 4, "syslog": 5, "lpr": 6}
_LEVEL = r"(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug)"
_ISO = (
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?"
    r"( ?(?:Z|[+-]\d\d:?\d\d)(?![\d:]))?"
)
_KMSG = re.compile(r"(\d{1,4}),(\d+),(\d+),([^;,]*)[^;]*;")
_RAW = re.compile(r"<(\d{1,3})>")
_DECODED = re.compile(rf"({'|'.join(_FACILITIES)}|\w+)\s*: ?{_LEVEL}\s*:\s+", re.ASCII)
_BOOT = re.compile(r"\[\s*(\d+\.\d+)\]\s?")
_DELTA = re.compile(r"\[\s*\+\d+\.\d+\]\s?|\[\s*<\s*\d+\.\d+>\]\s?")
_CALLER = re.compile(r"\[\s*[TC]\d+\]\s?")
_CTIME = re.compile(
    r"\[\w{2,4}\.? (\w{3})\.?\s+(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.\d+)? (\d{4})\]\s?"
)
_ISO_BRACKET = re.compile(rf"\[{_ISO}\]:?\s?")
_ISO_PLAIN = re.compile(rf"{_ISO}\s+")
_SYSLOG = re.compile(r"([^\W\d]{3,5})\.?\s+(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s+")
_EPOCH = re.compile(r"(\d{4,11}(?:\.\d+))\s+(?=\S)")
_KERNEL = re.compile(r"(?:(\S+)\s+)?kernel(?::| - - -)\s*")
# The weekday and zone of journalctl's full form, the version of a syslog record, and blanks.
_SKIPPED = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?=\d{4}-)|(?:UTC|GMT|[A-Z]{2,4}T) (?=\S)|1 (?=\d{4}-)|\s+"
)
_TALOS = re.compile(rf"([\w.:-]+): ({'|'.join(_FACILITIES)}): ?\s*{_LEVEL}:\s*(?=\[)")
_REPEATED = re.compile(r"(?:(\S+)\s+)?(?:\w+: )?message repeated (\d+) times: \[\s?")
_TRACE = re.compile(r"\s*\S.*?-\d+\s+(?:\(.{0,9}\)\s+)?\[\d+\]\s+\S+\s+(\d+\.\d+): \w+:\s*$")
_PROGRAM = re.compile(r"([\w.-]+)(?:\s+[\w./@-]+(?:\[\d+\])?:)?\s*")


@dataclass(frozen=True)
class Prefix:
    """What is known from before the message. `axis` says which `seconds` may be compared."""

    form: str = "none"  # boot_seconds, wall, wall_no_zone, wall_no_year, relative, none
    stamp: Any = None
    axis: str = ""
    seconds: Optional[float] = None
    host: Optional[str] = None
    facility: Optional[int] = None
    kmsg: Optional[dict[str, Any]] = None
    repeat: int = 1
    relayed: bool = False
    tracepoint: bool = False

    @property
    def trusted(self) -> Optional[bool]:
        """Whether the kernel wrote the line; None where the line does not show it."""
        return None if self.facility is None else self.facility == 0


NO_PREFIX = Prefix()


def read_prefix(text: str, tracepoint: bool = False) -> Prefix:
    """Return what the text before a message says."""
    if tracepoint:
        match = _TRACE.match(text)
        seen = _boot(NO_PREFIX, match[1]) if match else NO_PREFIX
        return replace(seen, tracepoint=True)
    prefix, rest = _strip(text.lstrip("\x00\ufeff"))
    rest = rest.strip().removesuffix("MESSAGE=").strip() if rest.endswith("MESSAGE=") else rest
    if not rest.strip():
        return prefix
    program = _PROGRAM.fullmatch(rest)
    if program and prefix.form in ("wall", "wall_no_zone", "wall_no_year"):
        # The syslog line of a program: its daemon stamped it, the kernel did not write it.
        return replace(prefix, host=program[1], relayed=True)
    # Stamps before a program's own words are that program's.
    return Prefix(host=prefix.host, facility=prefix.facility, kmsg=prefix.kmsg, relayed=True)


def _strip(text: str) -> tuple[Prefix, str]:
    """Take every known piece off the front of `text`; return what they say and the rest."""
    prefix = NO_PREFIX
    moved = True
    while moved and text:
        moved = False
        for pattern, learn in _PIECES:
            match = pattern.match(text)
            if match and match.end():
                prefix = learn(prefix, match)
                text = text[match.end() :]
                moved = True
                break
    return prefix, text


def _stamped(prefix: Prefix, form: str, stamp: Any, axis: str, seconds: Optional[float]) -> Prefix:
    if prefix.form != "none":
        # A second stamp is the boot's clock, which orders lines better than the first.
        return prefix if axis != "boot" else replace(prefix, axis=axis, seconds=seconds)
    return replace(prefix, form=form, stamp=stamp, axis=axis, seconds=seconds)


def _boot(prefix: Prefix, text: str) -> Prefix:
    seconds = float(text)
    return _stamped(prefix, "boot_seconds", seconds, "boot", seconds)


def _on_kmsg(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    priority, usec = int(match[1]), int(match[3])
    kmsg = {
        "priority": priority,
        "facility": priority >> 3,
        "level": priority & 7,
        "seq": int(match[2]),
        "usec": usec,
        "flags": match[4],
    }
    seconds = usec / 1e6
    return replace(
        _stamped(prefix, "boot_seconds", seconds, "boot", seconds),
        facility=priority >> 3,
        kmsg=kmsg,
    )


def _on_raw(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    return replace(prefix, facility=int(match[1]) >> 3)


def _on_decoded(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    # A facility that is not in the table is still not the kernel's.
    return replace(prefix, facility=_FACILITIES.get(match[1], 99))


def _on_ctime(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    month = _month(match[1])
    if month is None:
        return _stamped(prefix, "wall_no_zone", match[0].strip("[] "), "", None)
    day = (int(match[6]), month, int(match[2]))
    clock = (match[3], match[4], match[5])
    stamp = "{:04}-{:02}-{:02}T{}:{}:{}".format(*day, *clock)
    return _stamped(prefix, "wall_no_zone", stamp, "local", _seconds(day, clock))


def _on_iso(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    day = (int(match[1]), int(match[2]), int(match[3]))
    clock = (match[4], match[5], match[6])
    fraction = f".{match[7]}" if match[7] else ""
    stamp = "{}-{}-{}T{}:{}:{}".format(*match.groups()[:6]) + fraction
    seconds = _seconds(day, clock) + float(f"0{fraction}" if fraction else 0)
    zone = (match[8] or "").strip()
    if not zone:
        return _stamped(prefix, "wall_no_zone", stamp, "local", seconds)
    shift = 0 if zone == "Z" else _shift(zone)
    written = "+00:00" if zone == "Z" else f"{zone[:3]}:{zone[-2:]}"
    return _stamped(prefix, "wall", stamp + written, "utc", seconds - shift)


def _on_syslog(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    month = _month(match[1])
    clock = (match[3], match[4], match[5])
    # A leap year, so that each day of any year has its place.
    seconds = _seconds((2000, month, int(match[2])), clock) if month else None
    axis = "year" if month else ""
    return _stamped(prefix, "wall_no_year", match[0].strip(), axis, seconds)


def _on_epoch(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    return _stamped(prefix, "wall", float(match[1]), "utc", float(match[1]))


def _on_kernel(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    return replace(prefix, host=match[1] or prefix.host)


def _on_talos(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    return replace(prefix, host=match[1], facility=_FACILITIES[match[2]])


def _on_repeated(prefix: Prefix, match: "re.Match[str]") -> Prefix:
    return replace(prefix, host=match[1] or prefix.host, repeat=int(match[2][:9]))


_PIECES = (
    (_KMSG, _on_kmsg),
    (_RAW, _on_raw),
    (_BOOT, lambda prefix, match: _boot(prefix, match[1])),
    (_CTIME, _on_ctime),
    (_DELTA, lambda prefix, match: _stamped(prefix, "relative", match[0].strip(), "", None)),
    (_CALLER, lambda prefix, match: prefix),
    (_ISO_BRACKET, _on_iso),
    (_ISO_PLAIN, _on_iso),
    (_SYSLOG, _on_syslog),
    (_EPOCH, _on_epoch),
    (_TALOS, _on_talos),
    (_DECODED, _on_decoded),
    (_KERNEL, _on_kernel),
    (_REPEATED, _on_repeated),
    (_SKIPPED, lambda prefix, match: prefix),
)


def _month(name: str) -> Optional[int]:
    short = name[:3].lower()
    return _MONTHS.index(short) + 1 if short in _MONTHS else None


def _shift(zone: str) -> int:
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return minutes * 60 * (-1 if zone[0] == "-" else 1)


def _seconds(day: tuple[int, int, int], clock: tuple[str, str, str]) -> float:
    """Return seconds since 1970 of a day of the calendar and a time of that day."""
    year, month, date = day
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + date - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    hours, minutes, seconds = map(int, clock)
    return days * 86400.0 + hours * 3600 + minutes * 60 + seconds
