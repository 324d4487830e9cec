"""gpuguard migrate: move a running job."""

from typing import Annotated

import typer

from gpuguard.commands.confirm import agree, show_dry_run
from gpuguard.commands.context import open_desk
from gpuguard.commands.options import DryRunOption, Format, OutputOption, YesOption, examples
from gpuguard.commands.output import note, print_result

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog=examples(
        "gpuguard migrate llm --dry-run",
        "gpuguard migrate llm --to gpu002",
        "gpuguard migrate llm --yes -o json",
    )
)
def migrate(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The running job to move.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="HOST", help="Where to; chosen if left out.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> int:
    """Move a running job to another host; on any failure it goes on where it was."""
    from gpuguard.planning.requests import MigrateRequest
    from gpuguard.running.migrate import move, prepare

    with open_desk() as desk:
        plan = prepare(desk, MigrateRequest(job, to), settle=not dry_run)
        if dry_run:
            return show_dry_run(plan, output)
        agree(plan, yes)
        moved = move(desk, plan)
    text = f"{job} runs on {moved.host}, moved from {moved.source}"
    print_result("gpuguard.migrate/1", moved.to_dict(), output, text)
    if output is Format.TABLE:
        note(f"next: gpuguard jobs show {job}")
    return 0
