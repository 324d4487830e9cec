"""A plain list: one ``[user@]host[:port]`` or range a line, ``#`` starts a comment."""

import re

from gpuguard.inventory import scalars
from gpuguard.inventory.importers.draft import Draft, Settings
from gpuguard.inventory.problems import Problem, refuse
from gpuguard.inventory.ranges import MAX_HOSTS, expand
from gpuguard.model.errors import UsageError

_ENTRY = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<host>(?:[^:\[\]]|\[[^\]]*\])+)(?::(?P<port>\d+))?")


def read_hostlist(text: str, source: str) -> Draft:
    """Return the hosts of a plain list.

    Raises:
        UsageError: a line is no host; the message holds every such line with its number.
    """
    draft = Draft(source)
    problems: list[Problem] = []
    extra: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            _take(draft, words[0])
        except (UsageError, ValueError) as error:
            column = line.index(words[0]) + 1
            problems.append(Problem(number, column, words[0], _reason(error)))
        extra += [str(number)] if len(words) > 1 else []
    if problems:
        refuse(source, problems)
    if not draft.hosts:
        raise UsageError(f"{source}: lists no host")
    if extra:
        lines = ", ".join(extra[:10]) + (" and others" if len(extra) > 10 else "")
        draft.notes.append(f"left out: words after the host name on line {lines}")
    return draft


def _take(draft: Draft, entry: str) -> None:
    found = _ENTRY.fullmatch(entry)
    if not found:
        raise ValueError("expected [user@]host[:port]")
    settings: Settings = {}
    if found["port"]:
        settings["port"] = _port(found["port"])
    if found["user"] is not None:
        settings["user"] = scalars.word(found["user"])
    for name in expand(found["host"]):
        if not scalars.HOST_NAME.fullmatch(name):
            raise ValueError("is no host name")
        if draft.hosts.get(name, settings) != settings:
            raise ValueError(f"{name} is listed twice, with another user or port")
        draft.hosts[name] = settings
    if len(draft.hosts) > MAX_HOSTS:
        raise UsageError(f"more than {MAX_HOSTS} hosts")


def _port(value: str) -> int:
    port = scalars.integer(value)
    if not 0 < port < 65536:
        raise ValueError(f"{port} is no port")
    return port


def _reason(error: UsageError | ValueError) -> str:
    return error.message if isinstance(error, UsageError) else str(error)
