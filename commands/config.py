"""Show the preferences and where each comes from."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuguard.commands.defaults import given, preferences
from gpuguard.commands.options import Format, OutputOption, new_app, settings
from gpuguard.commands.output import Column, Listing, print_listing, print_result
from gpuguard.commands.preferences import BUILT_IN, PREFERENCES, files_in_use, usual_files
from gpuguard.state.paths import find_paths

app = new_app(
    "Show the preferences and where each comes from.",
    "gpuguard config show --origin",
    "gpuguard config check",
    "GPUGUARD_OUTPUT=json gpuguard config show --origin",
)


@app.command("show")
def show(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Say what sets each value.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show every preference; options before the command count, too."""
    items = [_item(ctx, name, value) for name, value in preferences(settings().config).items()]
    columns = [Column("NAME", lambda it: it["name"]), Column("VALUE", _shown)]
    if origin:
        columns.append(Column("ORIGIN", lambda it: it["origin"]))
    print_listing(Listing("gpuguard.config/1", items, columns), output)


@app.command("path")
def path(output: OutputOption = Format.TABLE) -> None:
    """Say which files are read, the weakest first."""
    folder = find_paths(os.environ).config
    used = files_in_use(os.environ, folder, settings().config)
    items = [
        {"path": str(file), "used": file in used}
        for file in dict.fromkeys([*usual_files(folder), *used])
    ]
    columns = [
        Column("PATH", lambda it: it["path"]),
        Column("READ", lambda it: "yes" if it["used"] else "no"),
    ]
    print_listing(Listing("gpuguard.config.path/1", items, columns), output)


@app.command("check")
def check(output: OutputOption = Format.TABLE) -> None:
    """Check files and variables: every fault with its place."""
    values = preferences(settings().config)
    used = files_in_use(os.environ, find_paths(os.environ).config, settings().config)
    changed = sum(1 for value in values.values() if value.origin != BUILT_IN)
    names = ", ".join(map(str, used)) or "no file"
    print_result(
        "gpuguard.config.check/1",
        {"files": [str(file) for file in used], "set": changed, "unknown_variables": _strangers()},
        output,
        [
            *(f"warning: ${name}: no such preference" for name in _strangers()),
            f"{names}: ok: {changed} of {len(values)} preferences set",
        ],
    )


# Read elsewhere, or by the node's part.
_OTHER_VARIABLES = frozenset({"GPUGUARD_CONFIG", "GPUGUARD_NODE_ROOT"})


def _strangers() -> list[str]:
    known = {preference.variable for preference in PREFERENCES} | _OTHER_VARIABLES
    return sorted(name for name in os.environ if name.startswith("GPUGUARD_") and name not in known)


def _item(ctx: typer.Context, name: str, value: Any) -> dict[str, Any]:
    shown, source = value.value, value.origin
    if name == "color" and given(ctx, "no_color"):
        shown, source = "never", "--no-color"
    elif given(ctx, name):
        shown, source = getattr(settings(), name), f"--{name.replace('_', '-')}"
    return {"name": name, "value": _plain(shown), "origin": source}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, (Path, str)) else value


def _shown(item: Any) -> str:
    value = item["value"]
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
