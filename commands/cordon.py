"""gpuguard cordon, uncordon: keep new work off hosts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuguard.commands.context import open_desk
from gpuguard.commands.options import Format, OutputOption, examples
from gpuguard.commands.output import Column, Listing, print_listing
from gpuguard.model.cordons import Cordon, describe
from gpuguard.model.errors import GpuguardError
from gpuguard.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuguard.running.cordons import CordonState
    from gpuguard.running.desk import Desk

HostsArgument = Annotated[
    list[str], typer.Argument(metavar="HOST...", help="Names, ranges or @groups.")
]
_COLUMNS = (
    Column("HOST", lambda item: item["host"]),
    Column("STATE", lambda item: item["state"]),
    Column("WHY", lambda item: _why(item)),
)


def cordon(
    hosts: HostsArgument,
    reason: Annotated[
        str, typer.Option("--reason", "-r", metavar="TEXT", help="Why; shown to everybody.")
    ] = "",
    output: OutputOption = Format.TABLE,
) -> int:
    """Keep restores, moves and new jobs off hosts; what runs there goes on."""
    from gpuguard.running.cordons import cordon_host

    return _each(hosts, lambda desk, name: cordon_host(desk, name, reason), output)


def uncordon(
    hosts: HostsArgument,
    force: Annotated[
        str | None, typer.Option("--force", metavar="OWNER", help="Also lift this owner's cordon.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Lift your cordon of hosts; another owner's stays unless --force names the owner."""
    from gpuguard.running.cordons import uncordon_host

    return _each(hosts, lambda desk, name: uncordon_host(desk, name, force), output)


CORDON_EPILOG = examples(
    "gpuguard cordon gpu003 --reason 'fan 2 is loud'", "gpuguard cordon 'gpu[001-004]' -o json"
)
UNCORDON_EPILOG = examples("gpuguard uncordon gpu003", "gpuguard uncordon gpu003 --force bob@hub")
cordon_app = typer.Typer(add_completion=False, rich_markup_mode=None)
cordon_app.command("cordon", epilog=CORDON_EPILOG)(cordon)
uncordon_app = typer.Typer(add_completion=False, rich_markup_mode=None)
uncordon_app.command("uncordon", epilog=UNCORDON_EPILOG)(uncordon)


def _each(
    words: Sequence[str], do: "Callable[[Desk, str], CordonState]", output: Format
) -> ExitCode:
    from gpuguard.inventory.select import select_hosts

    done: list[CordonState] = []
    errors: list[tuple[str, GpuguardError]] = []
    with open_desk() as desk:
        for name in [host.name for host in select_hosts(desk.inventory, words)]:
            try:
                done.append(do(desk, name))
            except GpuguardError as error:
                errors.append((name, error))
    items = [state.to_dict() for state in done]
    told = [{"host": name, **error.to_dict()} for name, error in errors]
    print_listing(Listing("gpuguard.cordons/1", items, _COLUMNS, told, "nothing done"), output)
    remembered = any(state.state == "remembered" for state in done)
    if not errors:
        return ExitCode.PARTIAL if remembered else ExitCode.OK
    return ExitCode.PARTIAL if done else ExitCode(errors[0][1].exit_code)


def _why(item: dict[str, Any]) -> str:
    told = [describe(Cordon.from_dict(one)) for one in item["cordons"]]
    return "; ".join([*told, *([item["note"]] if item["note"] else [])]) or "-"
