"""`gpuguard doctor`: what would stop a checkpoint or a restore on each host."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuguard.commands.context import open_cordons, open_inventory
from gpuguard.commands.options import Format, OutputOption, examples, new_app
from gpuguard.commands.output import complain, paint, write, write_json
from gpuguard.commands.text import clean
from gpuguard.model.errors import UsageError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.plans import Finding, Level

if TYPE_CHECKING:
    from gpuguard.running.doctoring import HostReport

app = new_app(
    "Say what would stop a checkpoint or a restore on each host, each finding with its remedy."
)

_SHOWN = {Level.ERROR: "red", Level.WARNING: "yellow", Level.INFO: "cyan", Level.OK: "green"}


@app.command(
    epilog=examples(
        "gpuguard doctor", "gpuguard doctor 'gpu[001-032]' --all", "gpuguard doctor --job llm"
    )
)
def doctor(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]…", help="Hosts, ranges or @groups; all by default."),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="JOB",
            help="Say what would stop a checkpoint of this job, and where it could go.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Also show what is fine, and remarks.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> int:
    """Say what would stop a checkpoint or a restore on each host, each finding with its remedy."""
    from gpuguard.inventory.select import select_hosts
    from gpuguard.remote.pool import Pool
    from gpuguard.running.doctoring import examine_hosts

    if job is not None:
        return _examine_job(job, hosts, every, output)
    inventory = open_inventory()
    chosen = select_hosts(inventory, hosts or ())
    with Pool(Path(inventory.path).parent) as pool:
        reports = examine_hosts(inventory, pool, chosen, book=open_cordons(inventory))
    if output is Format.TABLE:
        print_reports(reports, every)
    else:
        print_json(reports, output)
    return exit_code(reports)


def _examine_job(job: str, hosts: Sequence[str] | None, every: bool, output: Format) -> int:
    from gpuguard.commands.context import open_desk
    from gpuguard.commands.output import print_result
    from gpuguard.commands.verdicts import verdict_items, verdict_lines
    from gpuguard.running.job_doctor import examine_job

    if hosts:
        raise UsageError("--job looks at the job's own host and at all others", "leave HOST away")
    with open_desk() as desk:
        report = examine_job(desk, job)
    if output is Format.TABLE:
        for item in report.findings:
            if item.level in (Level.ERROR, Level.WARNING) or every:
                _print_finding(item, [f"{report.host}: {job}"])
        if report.exit_code is ExitCode.OK:
            write(f"{paint('ok', 'green')}  {job} on {report.host} can be saved")
        for line in verdict_lines(report.verdicts, every):
            write(line)
        return int(report.exit_code)
    items = verdict_items(report.verdicts)
    print_result("gpuguard.doctor-job/1", {**report.to_dict(), "verdicts": items}, output, "")
    return int(report.exit_code)


def exit_code(reports: "Sequence[HostReport]") -> ExitCode:
    """Return what the reports say to the shell: unreachable hosts weigh more than findings."""
    silent = [report for report in reports if report.error is not None]
    if silent:
        return ExitCode.UNREACHABLE if len(silent) == len(reports) else ExitCode.PARTIAL
    bad = any(report.worst is Level.ERROR for report in reports)
    return ExitCode.FAILED if bad else ExitCode.OK


def print_json(reports: "Sequence[HostReport]", output: Format) -> None:
    """Print every finding of every host, and the hosts that could not be asked."""
    items = [item.to_dict() for report in reports for item in report.findings]
    errors = [report.error for report in reports if report.error is not None]
    if output is Format.JSON:
        write_json({"schema": "gpuguard.doctor/1", "items": items, "errors": errors})
        return
    for item in items:
        write_json({"schema": "gpuguard.doctor/1", **item}, indent=None)
    for error in errors:
        write_json({"schema": "gpuguard.error/1", "error": error}, indent=None)


def print_reports(reports: "Sequence[HostReport]", every: bool) -> None:
    """Print each finding once, with the hosts it holds for, the heaviest first."""
    for key, hosts in grouped(reports).items():
        finding = Finding(*key)
        if finding.level in (Level.ERROR, Level.WARNING) or every:
            _print_finding(finding, hosts)
    for report in reports:
        if report.error is not None:
            complain(str(report.error["message"]), report.error.get("hint"))
    fine = [report.host for report in reports if report.worst in (Level.OK, Level.WARNING)]
    if fine:
        write(f"{paint('ok', 'green')}  {_fold(fine)}: nothing stands in the way")


def grouped(reports: "Sequence[HostReport]") -> dict[tuple[Any, ...], list[str]]:
    """Return the hosts of each finding, by the finding's fields without its subject."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for report in reports:
        for item in report.findings:
            key = (item.level, item.code, "", item.text, item.remedy)
            found.setdefault(key, []).append(report.host)
    order = list(Level)
    return dict(sorted(found.items(), key=lambda entry: order.index(entry[0][0])))


def _print_finding(finding: Finding, hosts: Sequence[str]) -> None:
    word = paint(finding.level.value, _SHOWN[finding.level])
    where = hosts[0] if len(hosts) == 1 else _fold(hosts)
    write(f"{word}  {where}: {clean(finding.text)}  [{finding.code}]")
    if finding.remedy:
        write(f"    {clean(finding.remedy)}")


def _fold(hosts: Sequence[str]) -> str:
    from gpuguard.inventory.ranges import fold

    return fold(hosts)
