"""Find and remove what a CRIU that died left in force: drop rules, helper files.

CRIU keeps a job's connections still with a table `inet CRIU-…` (nftables) or with rules that carry
the mark 0xc114 (iptables). While they stay, the job's connections are dead. Our dumps close
connections and need neither, but an earlier version, an option or a hand may have made them.
"""

import re
import signal
import subprocess
from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Callable, Optional

from gpuguard.agent import processes

Run = Callable[..., Optional[str]]

_TABLE = re.compile(r"^table (\w+) (CRIU-\S+)$", re.MULTILINE)
_MARK = "0xc114"
_GHOST = re.compile(r"\.cr\.[0-9a-f]+\.ghost\Z")
_SECONDS = 10.0


def run_tool(*argv: str) -> Optional[str]:
    """Return what a tool prints, None if it is missing, fails or takes more than 10 s."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def parse_tables(listed: str) -> list[tuple[str, str]]:
    """Return family and name of CRIU's tables in the output of `nft list tables`."""
    return _TABLE.findall(listed)


def parse_rules(saved: str) -> list[tuple[str, ...]]:
    """Return the words that delete each of CRIU's rules in the output of `iptables-save`."""
    found, table = [], "filter"
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith("-A ") and _MARK in line:
            found.append(("-t", table, "-D", *line.split()[1:]))
    return found


def criu_at_work() -> bool:
    """Tell whether any CRIU lives on this host, ours or not: then its rules are not remains."""
    return any(
        entry.name == "criu" and not entry.ended for entry in processes.every_process().values()
    )


def end_helpers(session: int) -> list[str]:
    """End the children of a dead CRIU that led `session`; tell what was done.

    A CRIU killed while it probes the kernel leaves a child that sleeps for ever, in the job's own
    pid namespace.
    """
    found = [
        entry
        for entry in processes.every_process().values()
        if entry.session == session and entry.name == "criu" and not entry.ended
    ]
    for entry in found:
        processes.send_signal(entry.ref, signal.SIGKILL)
    return [f"ended process {entry.pid}, which a dead CRIU had left" for entry in found]


def lift_rules(run: Run = run_tool) -> list[str]:
    """Remove CRIU's rules while no CRIU is at work; return what was done, one line each."""
    tables = parse_tables(run("nft", "list", "tables") or "")
    rules = [
        (tool, words)
        for tool in ("iptables", "ip6tables")
        for words in parse_rules(run(f"{tool}-save") or "")
    ]
    if (not tables and not rules) or criu_at_work():
        return []
    told = []
    for family, name in tables:
        done = run("nft", "delete", "table", family, name) is not None
        told.append(_say(done, f"table {family} {name}"))
    for tool, words in rules:
        done = run(tool, *words) is not None
        told.append(_say(done, f"rule of {tool}: {' '.join(words)}"))
    return told


def remove_ghosts(paths: Iterable[str]) -> list[str]:
    """Remove what a restore cut off left beside the deleted files `paths`; tell what was done.

    CRIU gives each such file the name PATH.cr.NUMBER.ghost for a moment.
    """
    told = []
    for path in sorted(set(paths)):
        for item in sorted(Path(path).parent.glob(f"{escape(Path(path).name)}.cr.*.ghost")):
            if not _GHOST.search(item.name):
                continue
            try:
                item.unlink()
            except OSError as error:
                told.append(f"CRIU left {item}, and it cannot be removed: {error}")
            else:
                told.append(f"removed {item}, which a dead CRIU had left")
    return told


def _say(done: bool, what: str) -> str:
    return f"removed what a dead CRIU had left: {what}" if done else f"CRIU left a {what}"
