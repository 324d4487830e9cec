"""The root command: global options, and a group that imports a command only when it is used."""

import os
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpuguard import __version__
from gpuguard.commands.defaults import prefer, preferences
from gpuguard.commands.options import Format, Settings, When, examples, hoist, use_settings
from gpuguard.commands.table import COMMANDS
from gpuguard.model.errors import UsageError
from gpuguard.model.exit_codes import ExitCode

COMPLETE = "_GPUGUARD_COMPLETE"  # set by the scripts of gpuguard completion
_ROWS = {row.name: row for row in COMMANDS}
# What other tools call it.
_ELSEWHERE = {"status": ["jobs list"], "ps": ["jobs list"], "ls": ["jobs list"]}


class LazyGroup(TyperGroup):
    """A group whose commands are named in a table and imported on use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the table, in its order."""
        del ctx
        return list(_ROWS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command `cmd_name`; None if there is none of that name."""
        del ctx
        row = _ROWS.get(cmd_name)
        return load(row.target, row.name) if row else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table's own lines, so that help imports no command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(row.name, row.help) for row in COMMANDS])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete names from the table, so that no command is imported for it."""
        from typer._click.shell_completion import CompletionItem

        names = [
            CompletionItem(row.name, help=row.help)
            for row in COMMANDS
            if row.name.startswith(incomplete)
        ]
        return [*names, *super(TyperGroup, self).shell_complete(ctx, incomplete)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; a misspelt one is answered with the nearest names.

        Raises:
            UsageError: there is no such command.
        """
        if args and args[0] not in _ROWS and not args[0].startswith("-"):
            near = _ELSEWHERE.get(args[0]) or get_close_matches(args[0], _ROWS, n=2)
            hint = f"did you mean: gpuguard {' or '.join(near)}?" if near else "gpuguard --help"
            raise UsageError(f"no command {args[0]!r}", hint)
        return super().resolve_command(ctx, args)


def _learn_shells() -> None:
    # Typer only does this for apps that carry its own --install-completion.
    from typer._completion_classes import completion_init

    completion_init()


def load(target: str, name: str) -> Any:
    """Return the parser command behind `module:attribute`, named `name`."""
    module, _, attribute = target.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    return command


app = typer.Typer(
    cls=LazyGroup,
    name="gpuguard",
    help="Save running GPU jobs below the application, and bring them back on a healthy host.",
    epilog=examples(
        "gpuguard jobs run llm --host gpu001 -- python3 train.py",
        "gpuguard checkpoint llm",
        "gpuguard migrate llm --to gpu002",
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"gpuguard {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    inventory: Annotated[
        Path | None,
        typer.Option(
            "--inventory", "-i", envvar="GPUGUARD_INVENTORY", help="The inventory file to use."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", envvar="GPUGUARD_CONFIG", help="The file of preferences to use."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results and errors only.")
    ] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Never ask; refuse instead.")
    ] = False,
    color: Annotated[When, typer.Option("--color", help="When to use colour.")] = When.AUTO,
    no_color: Annotated[bool, typer.Option("--no-color", hidden=True)] = False,
    progress: Annotated[
        When, typer.Option("--progress", help="When to show live progress.")
    ] = When.AUTO,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Save running GPU jobs below the application, and bring them back on a healthy host."""
    del version
    values = preferences(config)
    said = prefer(
        ctx,
        values,
        {
            "inventory": inventory,
            "quiet": quiet,
            "no_input": no_input,
            "color": color,
            "progress": progress,
        },
    )
    use_settings(
        Settings(
            inventory=said["inventory"],
            debug=debug,
            quiet=said["quiet"],
            no_input=said["no_input"],
            color=When.NEVER if no_color else When(said["color"]),
            progress=When(said["progress"]),
            config=config,
            fanout=values["fanout"].value,
            output=Format(values["output"].value),
        )
    )


def invoke(argv: list[str]) -> int:
    """Run `argv` and return the exit code the command returned."""
    if COMPLETE in os.environ:
        _learn_shells()
    command = typer.main.get_command(app)
    result = command.main(hoist(argv), prog_name="gpuguard", standalone_mode=False)
    if result == ExitCode.INTERRUPTED:  # what Typer makes of Ctrl-C
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0
