"""gpuguard restore: bring a job back."""

from typing import Annotated

import typer

from gpuguard.commands.confirm import agree, show_dry_run
from gpuguard.commands.context import open_desk
from gpuguard.commands.options import DryRunOption, Format, OutputOption, YesOption, examples
from gpuguard.commands.output import note, print_result

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog=examples(
        "gpuguard restore llm --dry-run",
        "gpuguard restore llm --to gpu002",
        "gpuguard restore llm --assume-dead gpu001 --yes",
        "gpuguard restore llm --power-off",
    )
)
def restore(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job to bring back.")],
    checkpoint: Annotated[
        str | None,
        typer.Option("--from", metavar="ID", help="This checkpoint, not the newest durable one."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="HOST", help="Where to; chosen if left out.")
    ] = None,
    assume_dead: Annotated[
        str | None,
        typer.Option(
            "--assume-dead",
            metavar="HOST",
            help="You vouch that nothing of the job runs on HOST any more.",
        ),
    ] = None,
    power_off: Annotated[
        bool,
        typer.Option(
            "--power-off",
            help="If the host that holds it is silent, switch it off first: that is proof, too.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> int:
    """Bring a job back from its newest durable checkpoint."""
    from gpuguard.planning.requests import RestoreRequest
    from gpuguard.running.restore import bring_back, prepare

    with open_desk() as desk:
        request = RestoreRequest(job, checkpoint, to, assume_dead, power_off)
        plan = prepare(desk, request, settle=not dry_run)
        if dry_run:
            return show_dry_run(plan, output)
        agree(plan, yes)
        brought = bring_back(desk, plan)
    text = f"{job} runs on {brought.host}, from checkpoint {brought.checkpoint}"
    print_result("gpuguard.restore/1", brought.to_dict(), output, text)
    if output is Format.TABLE:
        note(f"next: gpuguard jobs show {job}")
    return 0
