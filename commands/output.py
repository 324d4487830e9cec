"""Print results on stdout as a table, JSON or JSON lines; everything else goes to stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from gpuguard.commands.options import Format, When, settings
from gpuguard.commands.text import clean

Item = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of a table: its title and how a cell is made from an item."""

    title: str
    cell: Callable[[Any], object]
    right: bool = False


@dataclass(frozen=True)
class Listing:
    """What a reading command found: items as plain dictionaries, and hosts that failed."""

    schema: str  # such as gpuguard.jobs/1
    items: Sequence[Item]
    columns: Sequence[Column]
    errors: Sequence[Item] = ()  # GpuguardError.to_dict() with "host"
    empty: str = "nothing found"


def print_listing(listing: Listing, output: Format) -> None:
    """Print `listing` in the form asked for; errors also go to stderr as text in a table."""
    if output is Format.JSON:
        write_json(
            {"schema": listing.schema, "items": list(listing.items), "errors": list(listing.errors)}
        )
    elif output is Format.JSONL:
        for item in listing.items:
            write_json({"schema": listing.schema, **item}, indent=None)
        for error in listing.errors:
            write_json({"schema": "gpuguard.error/1", "error": error}, indent=None)
    else:
        _print_table(listing)
    if output is Format.TABLE:
        for error in listing.errors:
            complain(str(error.get("message")), error.get("hint"))


def print_result(schema: str, item: Item, output: Format, text: str | Sequence[str] = ()) -> None:
    """Print one result: `text` for people, `item` with its schema as JSON."""
    if output is Format.TABLE:
        for line in [text] if isinstance(text, str) else text:
            write(line)
    else:
        write_json({"schema": schema, **item}, indent=2 if output is Format.JSON else None)


def write_json(data: Any, indent: int | None = 2) -> None:
    """Write `data` as JSON and a newline to stdout, at once."""
    write(json.dumps(data, indent=indent, ensure_ascii=False))


def write(text: str = "") -> None:
    """Write one line of a result to stdout, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Write one line for people to stderr, unless --quiet."""
    if not settings().quiet:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def complain(message: str, hint: object = None, mark: str = "error") -> None:
    """Write an `error:` line to stderr and, if there is one, its `hint:` line.

    A message of several lines is one that lists several faults; each is cleaned by itself.
    """
    lines = "\n".join(clean(line) for line in message.split("\n"))
    sys.stderr.write(f"{paint(mark, 'red', sys.stderr)}: {lines}\n")
    if hint:
        sys.stderr.write(f"{paint('hint', 'cyan', sys.stderr)}: {clean(str(hint))}\n")
    sys.stderr.flush()


_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """Return `text` in a colour when `stream` (stdout by default) shows colours."""
    if not colored(stream or sys.stdout):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def colored(stream: TextIO) -> bool:
    """Tell whether colour may be written to `stream`."""
    wish = settings().color
    if wish is not When.AUTO:
        return wish is When.ALWAYS
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def _print_table(listing: Listing) -> None:
    if not listing.items:
        if not listing.errors:  # of hosts that did not answer nothing is known
            note(listing.empty)
        return
    rows = [[clean(str(column.cell(item))) for column in listing.columns] for item in listing.items]
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _print_rich(listing.columns, rows)
    else:
        for line in plain_lines(listing.columns, rows):
            write(line)


def plain_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Return aligned text lines, titles first, without any escape sequence."""
    titles = [column.title for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in [titles, *rows]:
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console  # noqa: TID251
    from rich.table import Table  # noqa: TID251
    from rich.text import Text  # noqa: TID251

    console = Console(no_color=not colored(sys.stdout), highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
