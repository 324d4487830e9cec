"""gpuguard xid: what a fault number or line of the GPU driver means, and what a log holds."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpuguard.commands.options import Format, OutputOption, examples
from gpuguard.commands.output import print_result, write, write_json
from gpuguard.commands.text import clean, counted
from gpuguard.model.errors import UsageError

_PIECE = 1 << 18


class _DefaultGroup(TyperGroup):
    """A group whose first sub-command is meant where no sub-command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `explain` before words that name no sub-command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["explain", *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=_DefaultGroup,
    help="Explain a fault number or line of the GPU driver, or read a whole kernel log.",
    epilog=examples(
        "gpuguard xid 79",
        "gpuguard xid 144 --driver 550.127.05",
        'gpuguard xid "NVRM: Xid (PCI:0000:4e:00): 94, pid=41210, …"',
        "dmesg | gpuguard xid parse",
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
DriverOption = Annotated[
    str | None,
    typer.Option("--driver", help="The driver's version, where numbers changed their meaning."),
]


@app.command(epilog=examples("gpuguard xid 79", "gpuguard xid 119/120 -o json"))
def explain(
    words: Annotated[
        list[str], typer.Argument(metavar="NUMBER|LINE", help="Numbers, or a line of the log.")
    ],
    driver: DriverOption = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Say what a number or a line means, and what to do."""
    from gpuguard.health.explaining import explain_codes, explain_line

    _check_driver(driver)
    text = " ".join(words)
    items = explain_line(text, driver) if "Xid (" in text else explain_codes(text, driver)
    if output is Format.JSON:
        write_json({"schema": "gpuguard.xid/1", "items": items})
        return 0
    for number, item in enumerate(items):
        lines = [*([""] if number else []), *map(clean, _lines(item))]
        print_result("gpuguard.xid/1", item, output, lines)
    return 0


def _check_driver(driver: str | None) -> None:
    from gpuguard.health.drivers import version

    if driver is not None and version(driver) is None:
        raise UsageError(f"--driver {driver!r} is no version", "such as --driver 550.127.05")


def _lines(item: dict[str, Any]) -> Iterator[str]:
    yield f"{item['title']}  ({item['severity']})"
    yield f"  {item['meaning']}"
    yield ""
    rows = {
        "reach": item["reach"],
        "jobs": item["job"],
        "checkpoint": item["save"],
        "do": f"{item['action'].replace('_', ' ')}: {item['do']}",
        "why": item["why"],
        "also": item["look"],
        "later": item["later"],
        "says": _detail(item.get("event")),
        "trust": _trust(item),
        "causes": ", ".join(cause.replace("_", " ") for cause in item["causes"]),
        "seen on": item["where"],
        "sources": ", ".join(item["sources"]),
    }
    yield from (f"  {f'{name}:':<12}{text}" for name, text in rows.items() if text)
    for title, lines in (
        ("it depends", item["workflow"]),
        ("other drivers", [_branch(one) for one in item["other_branches"]]),
        ("sources disagree", item["disagreements"]),
    ):
        if lines:
            yield f"  {title}:"
            yield from (f"    - {line}" for line in lines)


def _detail(event: dict[str, Any] | None) -> str:
    if event is None:
        return ""
    shown = {"GPU" if event["kind"] == "xid" else "switch": event["pci"]}
    shown |= {"process": event.get("pid"), "name": event.get("name"), "link": event.get("link")}
    shown |= event["detail"]
    return ", ".join(f"{key} {value}" for key, value in shown.items() if value not in (None, []))


def _trust(item: dict[str, Any]) -> str:
    if item.get("trusted") is False:
        return "NOT the kernel's: a program wrote this line, nothing is done because of it"
    return ""


def _branch(meaning: dict[str, Any]) -> str:
    return f"{meaning['branches']}: {meaning['name'].lower().replace('_', ' ')}"


@app.command(
    epilog=examples(
        "gpuguard xid parse /var/log/kern.log",
        "dmesg | gpuguard xid parse -o json",
        "journalctl -k -o json | gpuguard xid parse - -o jsonl",
    )
)
def parse(
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="The log; - is stdin.")] = "-",
    driver: DriverOption = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Read a kernel log: its faults, and the incidents they make.

    Any form is understood: dmesg, /var/log/kern.log, journalctl -k, also as JSON.
    """
    _check_driver(driver)
    if output is Format.JSONL:
        _stream(file, driver)
        return 0
    from gpuguard.health.report import SCHEMA, read

    report = read(_pieces(file), driver)
    if output is Format.JSON:
        write_json({"schema": SCHEMA, **report.to_dict()})
    else:
        _print_report(report.to_dict())
    return 0


def _stream(file: str, driver: str | None) -> None:
    """Print each event and incident as soon as it is known, so that no log is too long."""
    from gpuguard.health.kernel_log import KernelLog, Tellers
    from gpuguard.health.report import SCHEMA

    def tell(what: str, found: Any) -> None:
        write_json({"schema": SCHEMA, "what": what, **found.to_dict()}, indent=None)

    tellers = Tellers(
        event=lambda found: tell("event", found),
        context=lambda found: tell("context", found),
        incident=lambda found: tell("incident", found),
    )
    log = KernelLog(tellers, driver)
    for piece in _pieces(file):
        log.feed(piece)
    log.close()


def _pieces(file: str) -> Iterator[bytes]:
    try:
        with Path("/dev/stdin" if file == "-" else file).open("rb", buffering=0) as source:
            while piece := source.read(_PIECE):
                yield piece
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be read: {error.strerror}", "gpuguard xid parse FILE, or - for stdin"
        ) from error


def _print_report(found: dict[str, Any]) -> None:
    counts = found["counts"]
    for one in found["incidents"]:
        for line in _incident(one):
            write(clean(line))
    if not found["incidents"]:
        write("no fault of a GPU or a switch in this log")
    untrusted = counts["untrusted"]
    told = f"{counted(counts['lines'], 'line')}, {counted(counts['events'], 'fault event')}"
    told += f", {counts['rejects']} that look like one and are none" if counts["rejects"] else ""
    told += f", {untrusted} NOT written by the kernel and left aside" if untrusted else ""
    sys.stderr.write(told + "\n")


def _incident(one: dict[str, Any]) -> Iterator[str]:
    device = f"{one['host']} {one['pci']}" if one["host"] else one["pci"]
    name = {"xid": "Xid", "sxid": "SXid"}.get(one["kind"], "")
    codes = [str(code) for code in one["codes"] if code != one["primary"]]
    also = f" with {', '.join(codes)}" if codes else ""
    yield (
        f"{device}  {name} {one['primary']}".rstrip().replace("gpu_lost", "GPU lost")
        + f"{also}  {one['severity']}, {counted(one['count'], 'event')}"
    )
    when = f"{one['first_time']} to {one['last_time']}, " if one["first_time"] is not None else ""
    first, last = one["first_line"] + 1, one["last_line"] + 1
    yield f"  when:   {when}" + (f"line {first}" if first == last else f"lines {first} to {last}")
    yield f"  do:     {one['action'].replace('_', ' ')}"
    yield f"  why:    {one['why']}"
    rows = {
        "also": (one["investigate"] or "").replace("_", " "),
        "later": (one["followup"] or "").replace("_", " "),
        "named": ", ".join(map(str, [*one["names"], *one["pids"]])),
        "before": "; ".join(one["evidence"]),
    }
    yield from (f"  {f'{key}:':<8}{text}" for key, text in rows.items() if text)
