"""Show a plan and ask; refuse where nobody can answer."""

import sys

from gpuguard.commands.options import Format, settings
from gpuguard.commands.output import note, paint, write, write_json
from gpuguard.commands.text import clean
from gpuguard.model.errors import UsageError
from gpuguard.model.plans import Confirm, Finding, Level, Plan
from gpuguard.planning.findings import refusal

_COLORS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.INFO: "dim", Level.OK: "green"}


def show_dry_run(plan: Plan, output: Format) -> int:
    """Print `plan` on stdout; return 0, or the code of the refusal when it is refused."""
    if output is Format.TABLE:
        for line in plan_lines(plan):
            write(line)
    else:
        indent = 2 if output is Format.JSON else None
        write_json({"schema": "gpuguard.plan/1", **plan.to_dict(), "refused": plan.refused}, indent)
    return int(refusal(plan).exit_code) if plan.refused else 0


def agree(plan: Plan, yes: bool) -> None:
    """Show `plan` on stderr and return once a person or --yes has agreed.

    Raises:
        RefusedError: the plan is refused.
        UsageError: nobody can be asked, or the answer was no.
    """
    if plan.refused:
        raise refusal(plan)
    if plan.confirm is Confirm.NONE or yes:
        _warn(plan)
        return
    if settings().no_input or not sys.stdin.isatty():
        raise UsageError(
            f"{plan.verb} of {', '.join(plan.jobs)} needs a yes, and there is nobody to ask",
            "add --yes, or look first with --dry-run",
        )
    for line in plan_lines(plan):
        sys.stderr.write(line + "\n")
    if not _answer(plan):
        raise UsageError("not confirmed: nothing was changed")


def plan_lines(plan: Plan) -> list[str]:
    """Return the plan as text: findings first, then the numbered steps with cost and undo."""
    lines = [f"{plan.verb} {' '.join(plan.jobs)}"]
    lines += [_finding(finding) for finding in plan.findings]
    for number, step in enumerate(plan.steps, 1):
        lines.append(clean(f"{number:3}  {step.host}  {step.name}: {step.text}"))
        extra = [step.cost, f"undo: {step.undo}" if step.undo else None]
        lines += [" " * 5 + clean(text) for text in extra if text]
    return lines


def _finding(finding: Finding) -> str:
    mark = paint(finding.level.value, _COLORS[finding.level], sys.stderr)
    remedy = f" -> {finding.remedy}" if finding.remedy else ""
    return f"  {mark}: {clean(f'{finding.subject}: {finding.text}{remedy}')}"


def _warn(plan: Plan) -> None:
    for finding in plan.findings:
        if finding.level is Level.WARNING:
            note(_finding(finding).strip())


def _answer(plan: Plan) -> bool:
    if plan.confirm is Confirm.TYPE_NAME:
        sys.stderr.write(f"Type {plan.confirm_name} to go on: ")
        sys.stderr.flush()
        return sys.stdin.readline().strip() == plan.confirm_name
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
