"""Examine hosts: what each says of itself, and what only shows from outside."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gpuguard.model.codec import Record
from gpuguard.model.cordons import SITE, Cordon, describe
from gpuguard.model.inventory import Host, Inventory
from gpuguard.model.plans import Finding, Level
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.session import Session
from gpuguard.running.desk import Sessions
from gpuguard.running.site_hook import ask_site
from gpuguard.running.store_marks import compare_stores
from gpuguard.state.cordons import SET, CordonBook, Remembered

_DOCTOR_SECONDS = 150.0  # both folders and CRIU may take their own deadlines first
_SKEW_SECONDS = 2.0


@dataclass(frozen=True)
class HostReport(Record):
    """What was found on one host, or why it could not be asked."""

    host: str
    findings: tuple[Finding, ...] = ()
    error: dict[str, Any] | None = None

    @property
    def worst(self) -> Level | None:
        """The heaviest level found; None if the host could not be asked."""
        if self.error is not None:
            return None
        levels = {item.level for item in self.findings}
        return next((level for level in (Level.ERROR, Level.WARNING) if level in levels), Level.OK)


def examine_hosts(
    inventory: Inventory,
    pool: Sessions,
    hosts: Sequence[Host],
    clock: Callable[[], float] = time.time,
    book: CordonBook | None = None,
) -> list[HostReport]:
    """Ask every host side by side, then see whether each store is one and the same for all.

    `book` tells of the cordons that are remembered of hosts which do not answer.
    """
    outcomes = pool.map(hosts, lambda host, session: _ask(inventory, session, host, clock))
    shared = compare_stores(pool, _store_users(inventory, outcomes))
    return [
        _report(outcomes[host.name], shared.get(host.name, []), remembered_cordons(book, host.name))
        for host in hosts
    ]


def _store_users(
    inventory: Inventory, outcomes: dict[str, Outcome[list[Finding]]]
) -> dict[str, list[Host]]:
    """Return the hosts that can use their store, by its path."""
    users: dict[str, list[Host]] = {}
    for outcome in outcomes.values():
        store = places(inventory, outcome.host)[1]
        if store is not None and outcome.ok and not any(map(_spoils_store, outcome.get())):
            users.setdefault(store, []).append(outcome.host)
    return users


def _spoils_store(item: Finding) -> bool:
    return item.level is Level.ERROR and item.code.startswith("store")


def _report(
    outcome: Outcome[list[Finding]], shared: list[Finding], remembered: Remembered
) -> HostReport:
    name = outcome.host.name
    if outcome.error is not None:
        known = tuple(_cordoned(name, cordon) for cordon in remembered.standing)
        return HostReport(name, known, {**outcome.error.to_dict(), "host": name})
    unheard = [remembered.ours] if remembered.ours and remembered.wish == SET else []
    cordoned = [_cordoned(name, cordon) for cordon in unheard]
    return HostReport(name, (*outcome.get(), *cordoned, *shared))


def _ask(
    inventory: Inventory, session: Session, host: Host, clock: Callable[[], float]
) -> list[Finding]:
    found = [check_clock(host, session, clock), check_enrolment(inventory, host, session)]
    stage, store = places(inventory, host)
    answer = session.call("host.doctor", _DOCTOR_SECONDS, stage=stage, store=store)
    found += check_cordons(inventory, host, session)
    return [*found, *(_placed(inventory, host, Finding.from_dict(item)) for item in answer)]


def _placed(inventory: Inventory, host: Host, item: Finding) -> Finding:
    """Return the host's own finding under its name; what to edit is known only here."""
    remedy = inventory.store_remedy(host.policy) if item.code == "store-none" else item.remedy
    return replace(item, subject=host.name, remedy=remedy)


def check_cordons(inventory: Inventory, host: Host, session: Session) -> list[Finding]:
    """Return a warning for each cordon the host itself or the site's own command tells of."""
    told = session.call("host.info", host.timeout).get("cordons") or ()
    site = ask_site(inventory.cordon, host.name)
    return [_cordoned(host.name, one) for one in (*map(Cordon.from_dict, told), *site)]


def remembered_cordons(book: CordonBook | None, host: str) -> Remembered:
    """Return what this operator remembers of the cordons of `host`."""
    return book.get(host) if book else Remembered()


def _cordoned(host: str, cordon: Cordon) -> Finding:
    text = f"{describe(cordon)}; no restore, move or new job goes there"
    remedy = f"gpuguard uncordon {host}" if cordon.owner != SITE else "the site's own tool"
    return Finding(Level.WARNING, "cordoned", host, text, remedy)


def places(inventory: Inventory, host: Host) -> tuple[str, str | None]:
    """Return the stage and the store of `host` by its policy."""
    policy = inventory.policy(host.policy)
    store = inventory.store(policy.store).path if policy.store else None
    return host.stage or policy.stage, store


def check_clock(host: Host, session: Session, clock: Callable[[], float]) -> Finding:
    """Compare the host's clock with ours, the way there and back taken off."""
    before = clock()
    told = session.call("ping", host.timeout)["at"]
    after = clock()
    skew = datetime.fromisoformat(told).timestamp() - (before + after) / 2
    unsure = (after - before) / 2
    if abs(skew) > _SKEW_SECONDS + unsure:
        text = f"its clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this one"
        remedy = "timedatectl set-ntp true, on both"
        return Finding(Level.WARNING, "clock-skew", host.name, text, remedy)
    return Finding(Level.OK, "clock", host.name, f"within {abs(skew) + unsure:.2f} s of this one")


def check_enrolment(inventory: Inventory, host: Host, session: Session) -> Finding:
    """Check that the host's signing key is the one that other hosts will trust."""
    key = str(session.call("host.info", host.timeout).get("signing_key") or "")
    signers = Path(inventory.path).parent / "allowed_signers"
    lines = signers.read_text().splitlines() if signers.is_file() else []
    enrolled = [line for line in lines if host.name in line.split(" ", 1)[0].split(",")]
    if not key or not enrolled:
        text = "no signing key is enrolled yet; it is at its first checkpoint"
        return Finding(Level.INFO, "key-not-enrolled", host.name, text)
    if not any(key.split()[1] in line.split() for line in enrolled):
        text = f"its signing key is another than the one enrolled in {signers}"
        remedy = f"find out why; if the host was reinstalled, remove its line from {signers}"
        return Finding(Level.ERROR, "key-changed", host.name, text, remedy)
    return Finding(Level.OK, "key-enrolled", host.name, f"its signing key is in {signers.name}")
