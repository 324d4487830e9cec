"""Tell a shared store from folders of one name: leave a mark on one host, look on the others."""

from collections.abc import Sequence
from uuid import uuid4

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host
from gpuguard.model.plans import Finding, Level
from gpuguard.remote.session import Session
from gpuguard.running.desk import Sessions

_SECONDS = 20.0


def compare_stores(pool: Sessions, users: dict[str, list[Host]]) -> dict[str, list[Finding]]:
    """Return the findings by host name; `users` are the hosts of each store, by its path.

    A store that only one host uses has nobody to compare with and gives no finding.
    """
    found: dict[str, list[Finding]] = {}
    for store, hosts in users.items():
        for item in _compare(pool, store, hosts) if len(hosts) > 1 else ():
            found.setdefault(item.subject, []).append(item)
    return found


def _compare(pool: Sessions, store: str, hosts: Sequence[Host]) -> list[Finding]:
    token = uuid4().hex
    first, *others = hosts

    def see(host: Host, session: Session) -> Finding:
        return _verdict(host, first, store, _mark(session, store, token, "see"))

    try:
        try:
            _mark(pool.session(first), store, token, "leave")
            outcomes = pool.map(others, see)
        finally:
            _mark(pool.session(first), store, token, "remove")
    except GpuguardError as error:
        return [_unfit(first, error)]
    return [
        outcome.get() if outcome.error is None else _unfit(outcome.host, outcome.error)
        for outcome in outcomes.values()
    ]


def _verdict(host: Host, first: Host, store: str, there: bool) -> Finding:
    if there:
        text = f"{store} is the same as on {first.name}"
        return Finding(Level.OK, "store-shared", host.name, text)
    text = f"{store} is another folder than on {first.name}: what one saves the other cannot read"
    remedy = f"mount one shared file system at {store} on both"
    return Finding(Level.ERROR, "store-not-shared", host.name, text, remedy)


def _unfit(host: Host, error: GpuguardError) -> Finding:
    text = error.message.removeprefix(f"{host.name}: ")
    return Finding(Level.ERROR, "store-unfit", host.name, text, error.hint)


def _mark(session: Session, store: str, token: str, action: str) -> bool:
    answer = session.call("store.mark", _SECONDS, store=store, token=token, action=action)
    return bool(answer["there"])
