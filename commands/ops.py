"""gpuguard ops: what was done from here, and what is still open."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuguard.commands.context import open_desk, open_operations
from gpuguard.commands.options import Format, OutputOption, examples, new_app
from gpuguard.commands.output import Column, Listing, note, print_listing, print_result
from gpuguard.commands.text import age, clean, seconds
from gpuguard.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuguard.running.resuming import Settled

app = new_app(
    "Look at what was done from here, and how it ended.",
    "gpuguard ops list",
    "gpuguard ops show migrate-20260131t120431z-1a2b3c",
    "gpuguard ops open",
    "gpuguard ops resume migrate-20260131t120431z-1a2b3c",
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.")]
_OPEN_COLUMNS = (
    Column("HOST", lambda item: item["host"] or "here"),
    Column("WHAT", lambda item: item["id"]),
    Column("JOB", lambda item: item["job"]),
    Column("STATE", lambda item: item["state"]),
    Column("WHY", lambda item: clean(item["text"])[:80]),
    Column("NEXT", lambda item: clean(item["hint"])),
)
_COLUMNS = (
    Column("OPERATION", lambda item: item["id"]),
    Column("JOBS", lambda item: " ".join(item["jobs"])),
    Column("STATE", lambda item: item["state"]),
    Column("AGE", lambda item: age(item["started_at"]), right=True),
    Column("CODE", lambda item: "" if item["exit_code"] is None else item["exit_code"], right=True),
    Column("BY", lambda item: item["asked_by"]),
    Column("ERROR", lambda item: (item["error"] or {}).get("message", "")[:60]),
)


@app.command("list", epilog=examples("gpuguard ops list -n 5", "gpuguard ops list -o jsonl"))
def list_operations(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 20,
    output: OutputOption = Format.TABLE,
) -> int:
    """List what was done from this machine, newest first."""
    items = [operation.to_dict() for operation in open_operations().list(limit)]
    for item in items:
        item.pop("steps")
        item.pop("plan")
    listing = Listing("gpuguard.operations/1", items, _COLUMNS, empty="nothing was done yet")
    print_listing(listing, output)
    cut = [item["id"] for item in items if item["state"] == "abandoned"]
    if cut and output is Format.TABLE:
        note(f"next: gpuguard ops resume {cut[0]}, or gpuguard ops abort {cut[0]}")
    return 0


@app.command("open", epilog=examples("gpuguard ops open", "gpuguard ops open -o json"))
def open_(output: OutputOption = Format.TABLE) -> int:
    """List what is not settled, here and on the hosts.

    Here: operations that were cut off. On the hosts: procedures that did not end.
    """
    from gpuguard.running.open_ends import open_ends

    with open_desk() as desk:
        ends, errors = open_ends(desk)
        hosts = len(desk.inventory.hosts)
    items = [end.to_dict() for end in ends]
    listing = Listing(
        "gpuguard.open/1", items, _OPEN_COLUMNS, errors=errors, empty="nothing is open"
    )
    print_listing(listing, output)
    if not errors:
        return 0
    return ExitCode.UNREACHABLE if len(errors) == hosts else ExitCode.PARTIAL


@app.command(epilog=examples("gpuguard ops resume migrate-20260131t120431z-1a2b3c"))
def resume(operation: IdArgument, output: OutputOption = Format.TABLE) -> int:
    """Carry an operation on whose own process was killed.

    It goes on from where its hosts stand.
    """
    from gpuguard.running.resuming import resume as carry_on

    with open_desk() as desk:
        settled = carry_on(desk, operation)
    return _print_settled(settled, output)


@app.command(epilog=examples("gpuguard ops abort migrate-20260131t120431z-1a2b3c"))
def abort(operation: IdArgument, output: OutputOption = Format.TABLE) -> int:
    """Take an operation back whose own process was killed.

    It is refused where that is not possible any more.
    """
    from gpuguard.running.resuming import abort as take_back

    with open_desk() as desk:
        settled = take_back(desk, operation)
    return _print_settled(settled, output)


def _print_settled(settled: "Settled", output: Format) -> int:
    lines = [*(f"found: {line}" for line in settled.found), settled.text]
    item = settled.to_dict()
    print_result("gpuguard.settled/1", item, output, [clean(line) for line in lines])
    if settled.hint and output is Format.TABLE:
        note(f"next: {settled.hint}")
    return settled.exit_code


@app.command(epilog=examples("gpuguard ops show migrate-20260131t120431z-1a2b3c"))
def show(operation: IdArgument, output: OutputOption = Format.TABLE) -> int:
    """Show one operation with its steps."""
    item = open_operations().show(operation).to_dict()
    print_result("gpuguard.operation/1", item, output, _lines(item))
    return 0


def _lines(item: dict[str, Any]) -> list[str]:
    code = "" if item["exit_code"] is None else f", exit code {item['exit_code']}"
    lines = [f"{item['id']}: {item['state']}{code}, by {item['asked_by']} at {item['started_at']}"]
    lines += [clean(_step(step)) for step in item["steps"]]
    if item["error"]:
        lines.append(clean(f"error: {item['error']['message']}"))
        lines += [clean(f"hint: {item['error']['hint']}")] if item["error"]["hint"] else []
    if item["state"] == "abandoned":
        lines.append("its process died; the hosts finish or undo by themselves")
        lines.append(f"next: gpuguard ops resume {item['id']}, or gpuguard ops abort {item['id']}")
    return lines


def _step(step: dict[str, Any]) -> str:
    took = f" {seconds(step['seconds'])}" if step["seconds"] is not None else ""
    text = f"  {step['text']}" if step["text"] else ""
    job = f" {step['job']}" if step["job"] else ""
    return f"  {step['at']}  {step['host']}{job} {step['step']} {step['state']}{took}{text}"
