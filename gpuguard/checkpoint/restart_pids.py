"""Choose the process numbers that CRIU itself gets in the fresh namespace of a restore."""

from collections.abc import Iterable

_ROOM = 300  # CRIU's helpers, and then a margin
_FIRST = 300  # below, the kernel does not come back to after its numbers wrapped


def first_free_pid(taken: Iterable[int], limit: int) -> int:
    """Return a number after which `_ROOM` numbers below `limit` are free of `taken`.

    The supervisor tells the kernel to count on from there, so that neither CRIU nor anything the
    job starts later meets a number that the image needs.

    Raises:
        ValueError: there is no such gap.
    """
    used = sorted(set(taken))
    last = max(used, default=_FIRST)
    if last + _ROOM < limit:
        return last
    edges = [_FIRST, *(pid for pid in used if pid > _FIRST), limit]
    gaps = [(high - low, low) for low, high in zip(edges, edges[1:])]
    widest, start = max(gaps)
    if widest <= _ROOM:
        raise ValueError(f"no {_ROOM} process numbers in a row are free below {limit}")
    return start
