"""gpuguard checkpoint: save running jobs."""

from typing import Annotated, Any

import typer

from gpuguard.commands.confirm import agree, show_dry_run
from gpuguard.commands.context import open_desk
from gpuguard.commands.options import DryRunOption, Format, OutputOption, YesOption, examples
from gpuguard.commands.output import complain, note, write, write_json
from gpuguard.commands.text import seconds, size

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog=examples(
        "gpuguard checkpoint llm",
        "gpuguard checkpoint llm eval --dry-run",
        "gpuguard checkpoint llm --stop -o json",
    )
)
def checkpoint(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="The jobs to save.")],
    stop: Annotated[
        bool, typer.Option("--stop", help="End each job once its checkpoint is durable.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> int:
    """Save running jobs to their store; the jobs go on afterwards."""
    from gpuguard.planning.requests import CheckpointRequest
    from gpuguard.running.checkpoint import exit_code, prepare, save

    with open_desk() as desk:
        plan = prepare(
            desk, CheckpointRequest(tuple(dict.fromkeys(jobs)), stop), settle=not dry_run
        )
        if dry_run:
            return show_dry_run(plan, output)
        agree(plan, yes)
        results = save(desk, plan)
    _print([result.to_dict() for result in results], plan.id, output)
    if output is Format.TABLE and all(result.error is None for result in results):
        verb = "restore" if stop else "checkpoints list"
        note(f"next: gpuguard {verb} {results[0].job}")
    return int(exit_code(results))


def _print(results: list[dict[str, Any]], operation: str, output: Format) -> None:
    if output is Format.JSON:
        schema = "gpuguard.checkpoint/1"
        write_json({"schema": schema, "operation": operation, "items": results})
        return
    for result in results:
        if output is Format.JSONL:
            write_json({"schema": "gpuguard.checkpoint/1", **result}, indent=None)
        elif result["error"]:
            complain(result["error"]["message"], result["error"]["hint"])
        else:
            write(_line(result))
            for text in (result["info"] or {}).get("notes", ()):
                complain(f"{result['host']}: {result['job']}: {text}", mark="warning")


def _line(result: dict[str, Any]) -> str:
    info, times = result["info"] or {}, result["times"] or {}
    where = info.get("path") or f"{result['host']} (not durable)"
    froze = seconds(times.get("freeze_seconds"))
    return (
        f"{result['job']} {result['checkpoint']} {size(info.get('bytes'))}"
        f" stood still {froze} {where}"
    )
