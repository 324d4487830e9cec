"""Show, check, make or import the inventory."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuguard.commands.options import Format, OutputOption, examples, new_app, settings
from gpuguard.commands.output import Column, Listing, note, print_listing, print_result, write
from gpuguard.commands.text import counted
from gpuguard.inventory.importers.kinds import Kind
from gpuguard.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuguard.inventory.load import Loaded
    from gpuguard.model.inventory import Inventory

app = new_app(
    "Show, check, make or import the inventory.",
    "gpuguard inventory show 'gpu[001-008],!gpu003'",
    "gpuguard inventory check",
    "gpuguard inventory import --from ansible hosts.yml --output inventory.yaml",
)

HostsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[HOST]...", help="Names, ranges or @groups; !name leaves out."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


@app.command("show")
def show(
    hosts: HostsArgument = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", "-x", help="Leave these hosts out.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the hosts, with defaults, groups and ranges applied."""
    from gpuguard.inventory.select import select_hosts

    inventory = _load(_path()).inventory
    chosen = select_hosts(inventory, hosts or (), exclude or ())
    known = _cordons(inventory)
    items = [{**host.to_dict(), **known.get(host.name, _NO_CORDON)} for host in chosen]
    print_listing(Listing("gpuguard.inventory.hosts/1", items, _COLUMNS), output)


@app.command("check")
def check(
    file: Annotated[
        Path | None, typer.Argument(help="The file; the inventory in use by default.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> ExitCode:
    """Check the inventory: every fault with its line.

    Then what is worth a second look; a policy without a store is an error, too (exit code 1).
    """
    from gpuguard.model.plans import Level

    loaded = _load(file or _path())
    item = _summary(loaded)
    findings = [
        f"{finding.level.value}: {finding.subject}: {finding.text}"
        + (f" (remedy: {finding.remedy})" if finding.remedy else "")
        for finding in loaded.findings
    ]
    counts = ", ".join(counted(item[word], noun) for word, noun in _COUNTED.items())
    bad = any(finding.level is Level.ERROR for finding in loaded.findings)
    word = "not fit for use yet" if bad else "ok"
    told = [*findings, f"{item['path']}: {word}: {counts}"]
    print_result("gpuguard.inventory.check/1", item, output, told)
    return ExitCode.FAILED if bad else ExitCode.OK


@app.command("init")
def init(
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Where to write it; the usual place by default."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a first inventory with explanations."""
    from gpuguard.inventory.examples import starter
    from gpuguard.inventory.write import write_file

    path = file or settings().inventory or _usual_place()
    write_file(path, starter(), force)
    write(f"{path}: written")
    note("next: add your hosts, then run: gpuguard inventory check")


@app.command(
    "import",
    epilog=examples(
        "gpuguard inventory import --from ssh-config --output inventory.yaml",
        "gpuguard inventory import --from ansible hosts.yml > inventory.yaml",
        "sinfo -Nho %N | sort -u | gpuguard inventory import --from hosts -",
    ),
)
def import_(
    kind: Annotated[Kind, typer.Option("--from", help="What the source is.")],
    source: Annotated[
        Path | None,
        typer.Argument(help="The file to import; ~/.ssh/config by default for ssh-config."),
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Make an inventory from what you have.

    The source is an SSH configuration, an Ansible inventory or a list of hosts.
    """
    from gpuguard.inventory.importers.source import import_inventory
    from gpuguard.inventory.write import write_file

    target = output_file or Path("imported.yaml")
    text = import_inventory(kind, _source(kind, source), Path.home(), target)
    if output_file is None:
        sys.stdout.write(text)
        return
    write_file(output_file, text, force)
    write(f"{output_file}: written")
    note(f"next: name a store in it, then run: gpuguard inventory check {output_file}")


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of inventory files, for editors."""
    from gpuguard.inventory.examples import shipped_schema

    sys.stdout.write(shipped_schema())


_NO_CORDON: dict[str, Any] = {"cordons": [], "cordons_seen_at": None}


def _cordons(inventory: "Inventory") -> dict[str, dict[str, Any]]:
    """Return what is remembered of the hosts' cordons; nobody is asked."""
    from gpuguard.commands.context import open_cordons

    return {
        name: {
            "cordons": [cordon.to_dict() for cordon in known.standing],
            "cordons_seen_at": known.seen_at,
        }
        for name, known in open_cordons(inventory).all().items()
    }


def _cordoned(host: Any) -> str:
    from gpuguard.commands.text import age

    if not host["cordons"]:
        return "-"
    told = "; ".join(f"{one['owner']}: {one['reason'] or 'no reason'}" for one in host["cordons"])
    seen = host["cordons_seen_at"]
    return f"{told} ({f'seen {age(seen)} ago' if seen else 'not told to the host yet'})"


_COUNTED = {  # and what one of them is called
    "hosts": "host",
    "groups": "group",
    "stores": "store",
    "policies": "policy",
    "jobs": "job",
}
_COLUMNS = (
    Column("HOST", lambda host: host["name"]),
    Column("ADDRESS", lambda host: _address(host)),
    Column("USER", lambda host: host["user"] or "-"),
    Column("GROUPS", lambda host: ",".join(host["groups"]) or "-"),
    Column("POLICY", lambda host: host["policy"]),
    Column("CORDON", lambda host: _cordoned(host)),
    Column("LABELS", lambda host: _pairs(host["labels"]) or "-"),
)


def _address(host: Any) -> str:
    if host["transport"] == "local":
        return "this machine"
    place = f"[{host['address']}]" if ":" in host["address"] else host["address"]
    return f"{place}:{host['port']}" if host["port"] else str(place)


def _pairs(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _path() -> Path:
    from gpuguard.inventory.locate import find_inventory

    return find_inventory(settings().inventory, os.environ)


def _load(path: Path) -> "Loaded":
    from gpuguard.inventory.load import read_inventory

    return read_inventory(path)


def _summary(loaded: "Loaded") -> dict[str, Any]:
    inventory = loaded.inventory
    parts: Sequence[tuple[str, Any]] = [(word, getattr(inventory, word)) for word in _COUNTED]
    return {
        "path": inventory.path,
        **{word: len(part) for word, part in parts},
        "findings": [finding.to_dict() for finding in loaded.findings],
    }


def _usual_place() -> Path:
    from gpuguard.state.paths import find_paths

    return find_paths(os.environ).config / "inventory.yaml"


def _source(kind: Kind, source: Path | None) -> Path:
    from gpuguard.model.errors import UsageError

    if source is not None:
        return Path("/dev/stdin") if str(source) == "-" else source
    if kind is Kind.SSH_CONFIG:
        return Path.home() / ".ssh" / "config"
    raise UsageError(
        f"--from {kind.value}: which file?", f"gpuguard inventory import --from {kind.value} FILE"
    )
