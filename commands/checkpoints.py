"""gpuguard checkpoints: list, show, verify, rm."""

import sys
from typing import Annotated, Any

import typer

from gpuguard.commands.context import open_desk
from gpuguard.commands.options import Format, OutputOption, YesOption, examples, new_app, settings
from gpuguard.commands.output import Column, Listing, note, print_listing, print_result
from gpuguard.commands.text import age, seconds, size
from gpuguard.model.errors import UsageError

app = new_app(
    "List, show, verify and remove checkpoints.",
    "gpuguard checkpoints list llm",
    "gpuguard checkpoints verify llm",
    "gpuguard checkpoints show llm 20260131T120431Z-1a2b3c",
)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The checkpoint's id.")]
NewestArgument = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="The newest durable one if left out.")
]

_COLUMNS = (
    Column("JOB", lambda item: item["job"]),
    Column("CHECKPOINT", lambda item: item["checkpoint"]),
    Column("STATE", lambda item: item["state"]),
    Column("AGE", lambda item: age(item["frozen"]), right=True),
    Column("SIZE", lambda item: size(item["bytes"]), right=True),
    Column("HOST", lambda item: item["host"] or "?"),
    Column("EPOCH", lambda item: f"{item['epoch']}.{item['sequence']}", right=True),
    Column("NOTE", lambda item: item["problem"] or "; ".join(item["notes"])),
)


@app.command("list", epilog=examples("gpuguard checkpoints list", "gpuguard checkpoints list llm"))
def list_checkpoints(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Only of this job.")] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """List what the stores hold, newest first."""
    from gpuguard.running.checkpoints import list_all

    with open_desk() as desk:
        seen = list_all(desk, job)
    listing = Listing("gpuguard.checkpoints/1", seen.items, _COLUMNS, seen.errors, "no checkpoints")
    print_listing(listing, output)
    return int(seen.exit_code)


@app.command(
    epilog=examples(
        "gpuguard checkpoints show llm",
        "gpuguard checkpoints show llm 20260131T120431Z-1a2b3c --hosts 'gpu[001-032]' --all",
    )
)
def show(
    job: JobArgument,
    checkpoint: NewestArgument = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--hosts", metavar="HOST", help="Judge these hosts, ranges or @groups alone."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Show each rule that holds, with its values.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> int:
    """Show one checkpoint, and where it could be restored.

    Each host is judged rule by rule.
    """
    from gpuguard.commands.verdicts import verdict_items, verdict_lines
    from gpuguard.inventory.select import select_hosts
    from gpuguard.running.checkpoints import show as look

    with open_desk() as desk:
        names = [host.name for host in select_hosts(desk.inventory, hosts)] if hosts else None
        item, verdicts = look(desk, job, checkpoint, names)
    lines = [*_lines(item), "", *verdict_lines(verdicts, every)]
    answer = {**item, "verdicts": verdict_items(verdicts)}
    print_result("gpuguard.checkpoint-details/1", answer, output, lines)
    return 0


@app.command(epilog=examples("gpuguard checkpoints verify llm"))
def verify(
    job: JobArgument,
    checkpoint: NewestArgument = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Check a checkpoint's signature and every hash.

    It is done on a host that reaches the store.
    """
    from gpuguard.running.checkpoints import verify as check

    with open_desk() as desk:
        verified = check(desk, job, checkpoint)
    name = f"{job} {verified.checkpoint}"
    lines = [f"{name}: {finding.text}" for finding in verified.findings]
    text = lines or [f"{name}: verified on {verified.host}, signature and hashes are right"]
    print_result("gpuguard.verify/1", verified.to_dict(), output, text)
    return int(verified.exit_code)


@app.command("rm", epilog=examples("gpuguard checkpoints rm llm 20260131T120431Z-1a2b3c --yes"))
def remove(job: JobArgument, checkpoint: IdArgument, yes: YesOption = False) -> int:
    """Remove one checkpoint; the last durable one of a job is kept."""
    from gpuguard.running.checkpoints import remove as drop

    _agree(f"remove checkpoint {checkpoint} of {job}", yes)
    with open_desk() as desk:
        drop(desk, job, checkpoint)
    note(f"removed {checkpoint} of {job}")
    return 0


def _agree(what: str, yes: bool) -> None:
    if yes:
        return
    if settings().no_input or not sys.stdin.isatty():
        raise UsageError(f"to {what} needs a yes, and there is nobody to ask", "add --yes")
    sys.stderr.write(f"{what}? It cannot be brought back. [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed: nothing was changed")


def _lines(item: dict[str, Any]) -> list[str]:
    info, manifest = item["info"], item["manifest"] or {}
    times = manifest.get("times") or {}
    rows = {
        "checkpoint": info["checkpoint"],
        "job": info["job"],
        "state": info["state"],
        "problem": info["problem"],
        "host": info["host"],
        "frozen": f"{info['frozen']} ({age(info['frozen'])} ago)",
        "stood still": seconds(times.get("freeze_seconds")) if times else None,
        "size": size(info["bytes"]),
        "place": info["path"],
        "epoch": f"{info['epoch']}, number {info['sequence']}",
        "processes": len(manifest.get("tree") or ()) or None,
        "open files": len(manifest.get("open_files") or ()) or None,
        "versions": ", ".join(f"{k} {v}" for k, v in (manifest.get("versions") or {}).items()),
        "notes": "; ".join(info["notes"]),
    }
    return [f"{name + ':':<12} {value}" for name, value in rows.items() if value not in (None, "")]
