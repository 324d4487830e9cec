"""Host ranges: ``gpu[001-032]`` to names and back, through ClusterShell's NodeSet.

Ansible's ``web[01:50]`` and ``db[a:f]`` are read too.
"""

import re
from collections.abc import Iterable, Iterator

from gpuguard.model.errors import UsageError

MAX_HOSTS = 100_000

_TERM = re.compile(r"[A-Za-z0-9_.:\[\],/-]+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_ITEM = re.compile(r"(\d{1,15})(?:[-:](\d{1,15})(?:[/:](\d{1,6}))?)?")
_LETTERS = re.compile(r"([a-zA-Z])[-:]([a-zA-Z])")


def is_range(text: str) -> bool:
    """Tell whether `text` stands for more than one name."""
    return "[" in text or "," in text


def split_terms(text: str) -> list[str]:
    """Split at commas and blanks that stand outside brackets.

    Example: ``split_terms("gpu[1,3] login")`` is ``["gpu[1,3]", "login"]``.
    """
    terms = [""]
    depth = 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if depth <= 0 and (char == "," or char.isspace()):
            terms.append("")
        else:
            terms[-1] += char
    return [term for term in terms if term]


def expand(text: str, limit: int = MAX_HOSTS) -> list[str]:
    """Return the names that the ranges in `text` stand for, in order, each once.

    Raises:
        UsageError: a range is malformed, or more than `limit` names would come out.
    """
    names: dict[str, None] = {}
    for term in split_terms(text):
        for piece in _pieces(term, limit):
            names.update(dict.fromkeys(_expand_piece(piece)))
            if len(names) > limit:
                raise UsageError(f"{text}: more than {limit} hosts")
    return list(names)


def fold(names: Iterable[str]) -> str:
    """Return `names` in the shortest form, as in ``gpu[001-032],login``."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    known = list(dict.fromkeys(names))
    odd = [name for name in known if not _TERM.fullmatch(name) or set(name) & set("[],:/")]
    plain = [name for name in known if name not in set(odd)]
    folded = str(NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP)) if plain else ""
    return ",".join([*([folded] if folded else []), *sorted(odd)])


def _pieces(term: str, limit: int) -> Iterator[str]:
    """Yield `term` with letter ranges written out and colons turned into ClusterShell's signs."""
    if not _TERM.fullmatch(term):
        raise UsageError(f"{term!r} is no host name or range", "write ranges as gpu[001-032]")
    letters = next((m for m in _BRACKET.finditer(term) if _LETTERS.fullmatch(m[1])), None)
    if letters is None:
        yield _checked(term, limit)
        return
    first, last = (ord(char) for char in letters[1][::2])
    if first > last:
        raise UsageError(f"{term}: the range [{letters[1]}] runs backwards")
    for code in range(first, last + 1):
        yield from _pieces(term[: letters.start()] + chr(code) + term[letters.end() :], limit)


def _checked(term: str, limit: int) -> str:
    rest = _BRACKET.sub("", term)
    if "[" in rest or "]" in rest:
        raise UsageError(f"{term}: a bracket is missing", "write ranges as gpu[001-032]")
    count = 1
    for match in _BRACKET.finditer(term):
        count *= sum(_count(term, item) for item in match[1].split(","))
        if count > limit:
            raise UsageError(f"{term}: {count} hosts are more than the limit of {limit}")
    return _BRACKET.sub(lambda match: f"[{_dashed(match[1])}]", term)


def _count(term: str, item: str) -> int:
    match = _ITEM.fullmatch(item)
    if not match:
        raise UsageError(
            f"{term}: [{item}] is no range of numbers",
            "write ranges as gpu[001-032] or gpu[1,3,5-9]",
        )
    first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(first) > int(last):
        raise UsageError(f"{term}: the range [{item}] runs backwards")
    if step == 0:
        raise UsageError(f"{term}: the step of [{item}] is 0")
    if len(first) != len(last) and (len(first) > len(last) or _padded(first) or _padded(last)):
        raise UsageError(f"{term}: [{item}] mixes widths; write as many digits on both sides")
    return (int(last) - int(first)) // step + 1


def _padded(number: str) -> bool:
    return len(number) > 1 and number.startswith("0")


def _dashed(content: str) -> str:
    items = []
    for item in content.split(","):
        first, last, step = _ITEM.fullmatch(item).groups()  # type: ignore[union-attr]
        items.append(first if last is None else f"{first}-{last}" + (f"/{step}" if step else ""))
    return ",".join(items)


def _expand_piece(piece: str) -> list[str]:
    if "[" not in piece:
        return [piece]
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        return list(NodeSet(piece, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise UsageError(f"{piece}: {error}", "write ranges as gpu[001-032]") from error
