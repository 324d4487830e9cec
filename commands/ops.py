"""gpuguard ops: what was done from here."""

from typing import Annotated, Any

import typer

from gpuguard.commands.context import open_operations
from gpuguard.commands.options import Format, OutputOption, examples, new_app
from gpuguard.commands.output import Column, Listing, print_listing, print_result
from gpuguard.commands.text import age, clean, seconds

app = new_app(
    "Look at what was done from here, and how it ended.",
    "gpuguard ops list",
    "gpuguard ops show migrate-20260131t120431z-1a2b3c",
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
    return 0


@app.command(epilog=examples("gpuguard ops show migrate-20260131t120431z-1a2b3c"))
def show(
    operation: Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.")],
    output: OutputOption = Format.TABLE,
) -> int:
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
    return lines


def _step(step: dict[str, Any]) -> str:
    took = f" {seconds(step['seconds'])}" if step["seconds"] is not None else ""
    text = f"  {step['text']}" if step["text"] else ""
    job = f" {step['job']}" if step["job"] else ""
    return f"  {step['at']}  {step['host']}{job} {step['step']} {step['state']}{took}{text}"
