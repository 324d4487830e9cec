"""Put lasting preferences below what the command line says."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuguard.commands.preferences import Value, read_preferences
from gpuguard.state.paths import find_paths


def preferences(named: Path | None) -> dict[str, Value]:
    """Return this user's preferences; `named` is the file of --config, if any."""
    return read_preferences(os.environ, find_paths(os.environ).config, named)


def given(ctx: Any, name: str) -> bool:
    """Tell whether the command line itself sets the root option `name`."""
    source = ctx.find_root().get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def prefer(ctx: Any, values: Mapping[str, Value], said: dict[str, Any]) -> dict[str, Any]:
    """Return `said`, the root's options, with preferences where the command line is silent.

    Commands that print results take their default form from them, too.
    """
    ctx.default_map = {
        name: _form(command, values["output"].value)
        for name, command in ((ctx.invoked_subcommand, _invoked(ctx)),)
        if command is not None
    }
    return {
        name: value if given(ctx, name) or name not in values else values[name].value
        for name, value in said.items()
    }


def _invoked(ctx: Any) -> Any:
    name = ctx.invoked_subcommand
    return ctx.command.get_command(ctx, name) if name else None


def _form(command: Any, output: str) -> dict[str, Any]:
    """Return click's default map for `command` and the commands below it."""
    below = getattr(command, "commands", {})
    own: dict[str, Any] = {name: _form(each, output) for name, each in below.items()}
    return own if below else {"output": output}
