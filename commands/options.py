"""Options that many commands share, and the settings that hold for the whole run."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How a reading command prints its result."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class When(StrEnum):
    """When colour or progress is shown."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class Settings:
    """What the options before the command say."""

    inventory: Path | None = None
    debug: bool = False
    quiet: bool = False
    no_input: bool = False
    color: When = When.AUTO
    progress: When = When.AUTO
    config: Path | None = None  # the file of --config
    fanout: int = 32  # hosts worked on at once
    output: Format = Format.TABLE  # where the command itself is not told


_settings = Settings()


def settings() -> Settings:
    """Return the settings of this run."""
    return _settings


def use_settings(new: Settings) -> None:
    """Make `new` the settings of this run."""
    global _settings
    _settings = new


# Options of the root that may stand anywhere on the line, up to a bare `--`.
GLOBAL_FLAGS = frozenset({"--debug", "--no-color", "--no-input", "--quiet", "-q"})
GLOBAL_VALUES = frozenset({"--inventory", "-i", "--config", "--color", "--progress"})


def hoist(argv: list[str]) -> list[str]:
    """Return `argv` with the global options moved to the front."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            return [*front, *rest, word, *words]
        name, equals, _ = word.partition("=")
        if word in GLOBAL_FLAGS or (equals and name in GLOBAL_VALUES):
            front.append(word)
        elif word in GLOBAL_VALUES:
            front.append(word)
            front.extend(_next(words))
        else:
            rest.append(word)
    return [*front, *rest]


def _next(words: Iterator[str]) -> list[str]:
    value = next(words, None)
    return [] if value is None else [value]


def asks_json(argv: list[str]) -> bool:
    """Tell whether the line, or else the preferences, ask for JSON, before any command is found."""
    shown = argv[: argv.index("--")] if "--" in argv else argv
    forms = [
        value
        for word, value in zip(shown, [*shown[1:], ""], strict=False)
        if word in ("-o", "--output")
    ]
    forms += [word.removeprefix("--output=") for word in shown if word.startswith("--output=")]
    forms += [word.removeprefix("-o") for word in shown if word.startswith("-o")]
    forms += ["json" for word in shown if word == "--json"]
    named = [form for form in forms if form in set(Format)]
    return (named or [settings().output])[0] != Format.TABLE


def examples(*lines: str) -> str:
    """Return an epilog that shows `lines` as examples, unwrapped.

    Example: ``examples("gpuguard jobs list -o json")``.
    """
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def new_app(help: str, *example_lines: str) -> typer.Typer:
    """Return a Typer app with the house's settings, for a command with sub-commands."""
    return typer.Typer(
        help=help,
        epilog=examples(*example_lines) if example_lines else None,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="How to print the result.", show_default=True)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Print the plan and change nothing.")
]
HostOption = Annotated[
    str | None, typer.Option("--host", "-w", help="Only these hosts, such as gpu[001-004].")
]
