"""Trust host keys, enroll signing keys, and look at what is on record."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuguard.commands.options import Format, OutputOption, YesOption, examples, new_app, settings
from gpuguard.commands.output import Column, Listing, complain, note, print_listing
from gpuguard.commands.text import clean
from gpuguard.model.errors import GpuguardError, RefusedError, UsageError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.inventory import Host, Inventory

if TYPE_CHECKING:
    from gpuguard.remote.routes import Routes
    from gpuguard.remote.trust import Shown

app = new_app(
    "Trust host keys, enroll the keys that hosts sign checkpoints with, and list both.",
    "gpuguard hosts trust 'gpu[001-032]'",
    "gpuguard hosts enroll gpu001",
    "gpuguard hosts list",
)

HostsArgument = Annotated[
    list[str], typer.Argument(metavar="HOST...", help="Names, ranges, @groups or jump hosts.")
]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Also where another key is on record.")
]


@app.command(
    "trust",
    epilog=examples(
        "gpuguard hosts trust gpu001",
        "gpuguard hosts trust @all",
        "gpuguard hosts trust --replace gpu001 --yes",
    ),
)
def trust(
    hosts: HostsArgument,
    replace: ReplaceOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> int:
    """Show hosts' key fingerprints, ask, and record them.

    They are kept beside the inventory, for it alone.
    """
    from gpuguard.remote.routes import Routes
    from gpuguard.remote.trust import believe, look

    inventory = _inventory()
    folder = Path(inventory.path).parent
    routes = Routes(folder)
    try:
        found = look(routes, _named(inventory, hosts, routes), folder)
    finally:
        routes.close()
    errors = {name: error for name, error in found.items() if isinstance(error, GpuguardError)}
    shown = [one for one in found.values() if not isinstance(one, GpuguardError)]
    if not replace:
        errors |= {one.host.name: _refused(one) for one in shown if one.changed}
    new = [one for one in shown if not one.known and one.host.name not in errors]
    if new and not _agree(new, yes):
        note("not confirmed: no key was recorded")
        return ExitCode.FAILED
    for one in new:
        believe(one)
    told = [_item(one, one in new) for one in shown if one.host.name not in errors]
    return _finish("gpuguard.hosts.trust/1", told, errors, output, _TRUST_COLUMNS)


@app.command("enroll")
def enroll(
    hosts: HostsArgument, replace: ReplaceOption = False, output: OutputOption = Format.TABLE
) -> int:
    """Record the keys that hosts sign checkpoints with.

    They are fetched over connections whose host key was verified.
    """
    from gpuguard.inventory.select import select_hosts
    from gpuguard.remote import signers
    from gpuguard.remote.pool import Pool

    inventory = _inventory()
    folder = Path(inventory.path).parent

    def one(host: Host, session: Any) -> dict[str, Any]:
        key = str(session.call("host.info").get("signing_key") or "")
        changed = signers.enrol(folder, host.name, key, replace)
        fingerprint = signers.enrolled(folder)[host.name].fingerprint
        return {"host": host.name, "fingerprint": fingerprint, "new": changed}

    with Pool(folder) as pool:
        outcomes = pool.map(select_hosts(inventory, hosts), one)
    told = [outcome.value for outcome in outcomes.values() if outcome.value is not None]
    errors = {name: outcome.error for name, outcome in outcomes.items() if outcome.error}
    return _finish("gpuguard.hosts.enroll/1", told, errors, output, _ENROLL_COLUMNS)


@app.command("list")
def list_hosts(
    hosts: Annotated[
        list[str] | None, typer.Argument(metavar="[HOST]...", help="All by default.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """List hosts with the keys that are on record; nobody is contacted."""
    from gpuguard.inventory.select import select_hosts
    from gpuguard.remote import signers
    from gpuguard.remote.routes import Routes
    from gpuguard.remote.trust import recorded

    inventory = _inventory()
    folder = Path(inventory.path).parent
    routes, signing = Routes(folder), signers.enrolled(folder)
    items = []
    for host in select_hosts(inventory, hosts or ()):
        found = recorded(routes, host, folder)
        signer = signing.get(host.name)
        items.append(
            {
                "host": host.name,
                "place": found.place,
                "user": found.user,
                "transport": host.transport,
                "host_keys": [key.fingerprint for key in found.keys],
                "signing_key": signer.fingerprint if signer else None,
            }
        )
    return _finish("gpuguard.hosts/1", items, {}, output, _LIST_COLUMNS)


def _inventory() -> Inventory:
    from gpuguard.commands.context import open_inventory

    return open_inventory()


def _named(inventory: Inventory, words: Sequence[str], routes: "Routes") -> list[Host]:
    """Return the hosts that `words` name; a jump host need not stand in the inventory."""
    from gpuguard.inventory.select import select_hosts
    from gpuguard.remote.trust import jump_host

    chosen: list[Host] = []
    for word in words:
        try:
            chosen += select_hosts(inventory, [word])
        except UsageError:
            jump = jump_host(routes, inventory.hosts.values(), word)
            if jump is None:
                raise
            chosen.append(jump)
    local = [host.name for host in chosen if host.transport == "local"]
    if local:
        raise UsageError(f"{', '.join(local)}: reached without SSH, so there is no key to trust")
    return list({host.name: host for host in chosen}.values())


def _agree(new: "Sequence[Shown]", yes: bool) -> bool:
    """Show the keys on stderr and tell whether a person or --yes agrees; raise UsageError."""
    for one in new:
        note(clean(f"{one.host.name}: {one.key.described(one.name)}"))
    if yes:
        return True
    if settings().no_input or not sys.stdin.isatty():
        raise UsageError(
            "trusting host keys needs a yes, and there is nobody to ask",
            "compare the fingerprints shown with those of the hosts, then add --yes",
        )
    sys.stderr.write("Do these fingerprints belong to the hosts? Record them? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _refused(one: "Shown") -> RefusedError:
    entry = one.finding.entry
    old = f"{entry.key.fingerprint} ({one.path}:{entry.number})" if entry else "another key"
    return RefusedError(
        f"{one.host.name}: another key is on record: {old}; it shows {one.key.described(one.name)}",
        f"if the host was reinstalled: gpuguard hosts trust --replace {one.host.name}",
    )


def _item(one: "Shown", new: bool) -> dict[str, Any]:
    return {
        "host": one.host.name,
        "name": one.name,
        "type": one.key.type,
        "fingerprint": one.key.fingerprint,
        "new": new,
    }


def _finish(
    schema: str,
    items: Sequence[dict[str, Any]],
    errors: dict[str, GpuguardError],
    output: Format,
    columns: Sequence[Column],
) -> int:
    told = [{"host": name, **error.to_dict()} for name, error in errors.items()]
    if items or output is not Format.TABLE:
        print_listing(Listing(schema, items, columns, told, "no hosts"), output)
    else:
        for error in errors.values():
            complain(error.message, error.hint)
    if not errors:
        return ExitCode.OK
    return ExitCode.PARTIAL if items else next(iter(errors.values())).exit_code


_NEW = Column("STATE", lambda item: "recorded" if item["new"] else "known already")
_FINGERPRINT = Column("FINGERPRINT", lambda item: item["fingerprint"])
_HOST = Column("HOST", lambda item: item["host"])
_TRUST_COLUMNS = (_HOST, Column("TYPE", lambda item: item["type"]), _FINGERPRINT, _NEW)
_ENROLL_COLUMNS = (_HOST, _FINGERPRINT, _NEW)
_LIST_COLUMNS = (
    _HOST,
    Column("PLACE", lambda item: item["place"]),
    Column("USER", lambda item: item["user"]),
    Column("HOST KEY", lambda item: ", ".join(item["host_keys"]) or "unknown"),
    Column("SIGNING KEY", lambda item: item["signing_key"] or "not enrolled"),
)
