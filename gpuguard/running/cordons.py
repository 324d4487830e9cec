"""Keep new work off hosts: set and lift cordons, and bring remembered ones to their hosts."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuguard.model.codec import Record
from gpuguard.model.cordons import Cordon, describe
from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError
from gpuguard.model.inventory import Host
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk, Progress
from gpuguard.running.ids import asked_by
from gpuguard.running.site_hook import ask_site, run_hook
from gpuguard.state.clock import stamp
from gpuguard.state.cordons import LIFT, SET, CordonBook

REMEMBERED = "it does not answer: remembered here, and told to it at the next contact"


@dataclass(frozen=True)
class CordonState(Record):
    """One host after a cordon or uncordon."""

    host: str
    state: str  # cordoned, uncordoned, not-cordoned, remembered
    cordons: tuple[Cordon, ...] = ()
    note: str = ""


def book_of(desk: Desk) -> CordonBook:
    """Return this operator's book of cordons, beside the journal."""
    return CordonBook.beside(desk.operations.path, desk.inventory.path)


def cordon_host(desk: Desk, name: str, reason: str) -> CordonState:
    """Cordon one host: written here, told to the host, then the site's own command.

    Raises:
        GpuguardError: the host or the site's command failed; the wish stays remembered.
    """
    book, host = book_of(desk), desk.inventory.host(name)
    ours = Cordon(secrets.token_hex(8), asked_by(), reason, stamp(desk.clock.now()))
    book.wish(name, ours, SET)
    try:
        seen = _cordons(desk.pool.session(host).call("cordon.set", cordon=ours.to_dict()))
    except UnreachableError:
        run_hook(desk.inventory.cordon.set, name, reason)
        return CordonState(name, "remembered", book.get(name).standing, REMEMBERED)
    book.wish(name, ours, None)
    book.saw(name, seen, ours.at)
    run_hook(desk.inventory.cordon.set, name, reason)
    return CordonState(name, "cordoned", seen)


def uncordon_host(desk: Desk, name: str, force: str | None) -> CordonState:
    """Lift our cordon of one host, and that of the owner `force` names.

    The site's own command goes first where nothing else keeps the host cordoned: if it fails,
    our cordon stands as it was.

    Raises:
        RefusedError: another owner's cordon stays.
        GpuguardError: the host or the site's command failed.
    """
    book, host = book_of(desk), desk.inventory.host(name)
    owners = [asked_by(), *([force] if force else [])]
    try:
        session = desk.pool.session(host)
    except UnreachableError:
        return _lift_later(desk, book, name, owners)
    before = _cordons(session.call("cordon.show"))
    others = tuple(item for item in before if item.owner not in owners)
    if not others:
        run_hook(desk.inventory.cordon.lift, name, "")
    book.wish(name, book.get(name).ours, LIFT)
    for owner in owners:
        session.call("cordon.lift", owner=owner)
    book.wish(name, None, None)
    book.saw(name, others, stamp(desk.clock.now()))
    _refuse_others(name, others)
    return CordonState(name, "uncordoned" if before else "not-cordoned")


def sight(desk: Desk, host: Host, session: Session, said: Sequence[Any]) -> tuple[Cordon, ...]:
    """Return what keeps new work off a host that answers; what it had not heard is told now."""
    seen = reconcile(desk, host.name, session, _cordons(said))
    return (*seen, *ask_site(desk.inventory.cordon, host.name))


def reconcile(
    desk: Desk, host: str, session: Session, seen: tuple[Cordon, ...]
) -> tuple[Cordon, ...]:
    """Tell the host what it has not heard; what was lifted there by force is forgotten here."""
    book = book_of(desk)
    known = book.get(host)
    ours, ids = known.ours, {item.id for item in seen}
    if ours is not None and known.wish is None and ours.id not in ids:
        _say(desk, host, f"the cordon of {ours.at} was lifted or replaced by somebody else")
        book.wish(host, None, None)
    if ours is not None and known.wish is not None:
        try:
            seen = _tell(session, ours, known.wish)
        except GpuguardError as error:
            _say(desk, host, f"could not be told to {known.wish} the cordon: {error.message}")
            return (*seen, ours) if known.wish == SET and ours.id not in ids else seen
        book.wish(host, ours if known.wish == SET else None, None)
        _say(desk, host, f"now told: {known.wish} the cordon of {ours.at} ({ours.reason})")
    book.saw(host, seen, stamp(desk.clock.now()))
    return seen


def _tell(session: Session, ours: Cordon, wish: str) -> tuple[Cordon, ...]:
    if wish == SET:
        return _cordons(session.call("cordon.set", cordon=ours.to_dict()))
    return _cordons(session.call("cordon.lift", owner=ours.owner, cordon=ours.id))


def _lift_later(desk: Desk, book: CordonBook, name: str, owners: Sequence[str]) -> CordonState:
    known = book.get(name)
    others = tuple(item for item in known.seen if item.owner not in owners)
    foreign = [item for item in known.seen if item.owner != asked_by() and item.owner in owners]
    if foreign:
        text = f"{name} does not answer: only its own file can say whose cordon is lifted"
        raise UnreachableError(text, f"gpuguard uncordon {name}, when it answers")
    if known.ours is None and not others:
        text = f"{name} does not answer, and no cordon of it is remembered here"
        raise UnreachableError(text, f"gpuguard doctor {name}")
    if not others:
        run_hook(desk.inventory.cordon.lift, name, "")
    if known.ours is not None:
        book.wish(name, known.ours, LIFT)
    _refuse_others(name, others)
    return CordonState(name, "remembered", (), REMEMBERED)


def _refuse_others(name: str, others: Sequence[Cordon]) -> None:
    if not others:
        return
    text = f"{name}: still " + "; ".join(map(describe, others))
    raise RefusedError(
        text, f"ask {others[0].owner}, or: gpuguard uncordon {name} --force {others[0].owner}"
    )


def _say(desk: Desk, host: str, text: str) -> None:
    desk.on_progress(Progress(host, "cordon", "warning", text))


def _cordons(items: Sequence[Any]) -> tuple[Cordon, ...]:
    return tuple(Cordon.from_dict(item) for item in items or ())
