"""gpuguard info: versions, paths, tools found."""

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from gpuguard import __version__
from gpuguard.commands.options import Format, OutputOption, examples, settings
from gpuguard.commands.output import print_result
from gpuguard.model.errors import GpuguardError
from gpuguard.state.paths import find_paths

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_PACKAGES = ("typer", "rich", "textual", "paramiko", "PyYAML", "pydantic", "nvidia-ml-py")
_TOOLS = ("ssh", "ssh-keygen", "ssh-agent", "criu", "nvidia-smi")


@app.command(epilog=examples("gpuguard info", "gpuguard info -o json"))
def info(output: OutputOption = Format.TABLE) -> int:
    """Print versions, paths and tools found."""
    item = _collect()
    print_result("gpuguard.info/1", item, output, _lines(item))
    return 0


def _collect() -> dict[str, Any]:
    paths = find_paths(os.environ)
    return {
        "version": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "inventory": _inventory(),
        "cordoned": _cordoned(),
        "config": str(paths.config),
        "state": str(paths.state),
        "cache": str(paths.cache),
        "journal": str(paths.operations),
        "packages": {name: _version(name) for name in _PACKAGES},
        "tools": {name: shutil.which(name) for name in _TOOLS},
    }


def _inventory() -> str | None:
    from gpuguard.inventory.locate import find_inventory

    try:
        return str(find_inventory(settings().inventory, os.environ))
    except GpuguardError:
        return None


def _cordoned() -> str | None:
    """Return the hosts of the inventory that are cordoned as far as is remembered here."""
    from gpuguard.commands.context import open_cordons, open_inventory
    from gpuguard.inventory.ranges import fold

    try:
        known = open_cordons(open_inventory()).all()
        return fold([name for name, one in known.items() if one.standing]) or None
    except GpuguardError as error:
        return f"unknown: {error.message}" if _inventory() else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _lines(item: dict[str, Any]) -> list[str]:
    lines = [
        f"{name + ':':<11} {value if value is not None else 'none found'}"
        for name, value in item.items()
        if not isinstance(value, dict)
    ]
    for group in ("packages", "tools"):
        lines.append(f"{group}:")
        lines += [f"  {name:<13} {value or 'not found'}" for name, value in item[group].items()]
    return lines
