"""A cordon: somebody's word that no new work goes to a host."""

from dataclasses import dataclass

from gpuguard.model.codec import Record

SITE = "site"  # the owner of what a site's own command says
UNKNOWN = "unknown"  # the owner of a record that cannot be read


@dataclass(frozen=True)
class Cordon(Record):
    """One owner's cordon; a host is cordoned while any owner's stands."""

    id: str
    owner: str  # user@machine
    reason: str
    at: str  # ISO 8601, UTC


def describe(cordon: Cordon) -> str:
    """Return the cordon as half a sentence: who, since when, why."""
    since = f" since {cordon.at}" if cordon.at else ""
    return f"cordoned by {cordon.owner}{since}: {cordon.reason or 'no reason given'}"
