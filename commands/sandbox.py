"""`gpuguard sandbox`: a practice fleet of real hosts on this machine."""

import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuguard.commands.options import Format, OutputOption, new_app
from gpuguard.commands.output import Column, Listing, note, print_listing, print_result, write
from gpuguard.model.errors import GpuguardError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.sandbox import fleet
from gpuguard.sandbox.places import state_root
from gpuguard.sandbox.requirements import refusal
from gpuguard.sandbox.verification import read_steps

app = new_app(
    "Run a practice fleet on this machine: real hosts, real SSH, real CRIU, no GPU needed.",
    "gpuguard sandbox up --hosts 3",
    "gpuguard sandbox power node2 off",
    "gpuguard sandbox down",
)

NameOption = Annotated[
    str, typer.Option("--name", envvar="GPUGUARD_SANDBOX", help="Which sandbox.")
]
HostArgument = Annotated[str, typer.Argument(help="A host of the sandbox, such as node1.")]

_COLUMNS = (
    Column("SANDBOX", lambda item: item["sandbox"]),
    Column("HOST", lambda item: item["host"]),
    Column("ADDRESS", lambda item: item["address"]),
    Column("POWER", lambda item: item["power"]),
    Column("NETWORK", lambda item: item["network"]),
    Column("CRIU", lambda item: item["criu"]),
    Column("BOOT ID", lambda item: item["boot_id"] or "-"),
)


class Power(StrEnum):
    """What may be asked of a host's power."""

    ON = "on"
    OFF = "off"
    STATUS = "status"


@app.command()
def up(
    name: NameOption = "default",
    hosts: Annotated[
        int | None, typer.Option(help="How many hosts; 3 for a new sandbox.", show_default=False)
    ] = None,
    old_criu: Annotated[
        bool, typer.Option("--old-criu", help="Give the last host of a new sandbox CRIU 4.1.1.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Bring a sandbox up, or what is missing of it."""
    sandbox = fleet.up(name, hosts, old_criu, say=note)
    item = {
        "name": name,
        "inventory": str(sandbox.inventory),
        "network": sandbox.record.network,
        "hosts": {host: sandbox.address(host) for host in sandbox.hosts},
    }
    note(f"sandbox {name} is up: {', '.join(sandbox.hosts)} on {sandbox.record.network}")
    text = f"export GPUGUARD_INVENTORY={shlex.quote(str(sandbox.inventory))}"
    print_result("gpuguard.sandbox/1", item, output, text)


@app.command()
def down(
    name: NameOption = "default",
    everything: Annotated[bool, typer.Option("--all", help="Every sandbox.")] = False,
) -> None:
    """Remove a sandbox with everything of it, also half of one."""
    _require()
    for each in _names() if everything else [name]:
        note(f"sandbox {each} is gone" if fleet.down(each) else f"there is no sandbox {each}")


@app.command()
def status(
    name: Annotated[
        str | None, typer.Option("--name", envvar="GPUGUARD_SANDBOX", help="Only this sandbox.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the sandboxes of this machine and their hosts."""
    _require()
    items: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for each in [name] if name else _names():
        try:
            sandbox = fleet.find(each)
            items += [_host_item(sandbox, host) for host in sandbox.hosts]
        except GpuguardError as error:
            if name:
                raise
            errors.append({**error.to_dict(), "host": None})
    empty = "no sandbox is up; gpuguard sandbox up makes one"
    print_listing(Listing("gpuguard.sandbox.hosts/1", items, _COLUMNS, errors, empty), output)


@app.command()
def shell(
    host: HostArgument,
    command: Annotated[
        list[str] | None, typer.Argument(help="Run this instead, after `--`.")
    ] = None,
    name: NameOption = "default",
) -> None:
    """Open a root shell on a host, also while it is cut off.

    It does not go over the network.
    """
    sandbox = _find(name)
    words = list(command or ["bash", "-l"])
    if sys.stdin.isatty():
        # A terminal of the host's own: job control would not work on the machine's.
        words = ["script", "-q", "-c", shlex.join(words), "/dev/null"]
    term = f"TERM={os.environ.get('TERM', 'dumb')}"
    argv = sandbox.enter(host, ["env", term, *words])
    os.execvp(argv[0], argv)  # noqa: S606  # an argument list; no shell takes part


@app.command()
def reboot(host: HostArgument, name: NameOption = "default") -> None:
    """Reboot a host: everything in it dies, its disk stays."""
    sandbox = _find(name)
    sandbox.reboot(host)
    note(f"{host}: rebooted, boot id {sandbox.host(host).boot_id()}")


@app.command()
def power(
    host: HostArgument,
    state: Annotated[Power, typer.Argument(help="off is a pulled plug.")],
    name: NameOption = "default",
    root: Annotated[
        Path | None, typer.Option(help="The folder of all sandboxes.", hidden=True)
    ] = None,
) -> None:
    """Switch a host on or off, or say which it is."""
    _require()
    sandbox = fleet.find(name, root)
    if state is not Power.STATUS:
        sandbox.power(host, state.value)
        note(f"{host}: the power is {state.value}")
    else:
        write("off" if sandbox.state(host) == "off" else "on")


@app.command()
def cut(host: HostArgument, name: NameOption = "default") -> None:
    """Take a host off the network; sessions with it hang."""
    _find(name).cut(host)
    note(f"{host}: cut off; heal it with: gpuguard sandbox heal {host}")


@app.command()
def heal(host: HostArgument, name: NameOption = "default") -> None:
    """Put a host back on the network."""
    _find(name).heal(host)
    note(f"{host}: back on the network")


@app.command()
def workload(
    host: HostArgument,
    options: Annotated[
        list[str] | None,
        typer.Argument(help="Options of `steps`, after `--`; see them with `-- --help`."),
    ] = None,
    in_shell: Annotated[
        bool, typer.Option("--in-shell", help="Let a shell lead its session, not itself.")
    ] = False,
    name: NameOption = "default",
) -> None:
    """Start `steps`, a job that proves its own continuity.

    Its pid on the host is printed.
    """
    sandbox = _find(name)
    words = list(options or [])
    if "--help" in words or "-h" in words:
        write(sandbox.run(host, ["steps", "--help"]).stdout)
        return
    write(str(sandbox.start_workload(host, words, in_shell)))


@app.command()
def verify(
    log: Annotated[Path, typer.Argument(help="A step log; `-` reads standard input.")],
    rollback: Annotated[
        list[int] | None, typer.Option(help="A step a checkpoint holds: it may go on from there.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Say whether a step log comes from one unbroken run.

    The exit code is 1 if it does not.
    """
    text = sys.stdin.read() if str(log) == "-" else _read(log)
    report = read_steps(text, rollback or ())
    item = {"last": report.last, "repeated": report.repeated, "findings": report.findings}
    told = report.findings or [
        f"steps 1 to {report.last}: unbroken, {report.repeated} done again from a checkpoint"
    ]
    print_result("gpuguard.sandbox.steps/1", item, output, told)
    return ExitCode.FAILED if report.findings else ExitCode.OK


def _require() -> None:
    no = refusal()
    if no:
        raise no


def _find(name: str) -> fleet.Sandbox:
    _require()
    return fleet.find(name)


def _names() -> list[str]:
    root = state_root()
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.exists() else []


def _host_item(sandbox: fleet.Sandbox, name: str) -> dict[str, Any]:
    host = sandbox.host(name)
    state = host.state()
    return {
        "sandbox": sandbox.record.name,
        "host": name,
        "address": sandbox.address(name),
        "power": "off" if state == "off" else "on",
        "network": "cut" if host.folder.cut.exists() else "up",
        "criu": host.host.kind.value,
        "boot_id": host.boot_id(),
    }


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise GpuguardError(f"{path}: {error.strerror}", "give the path of a step log") from error
