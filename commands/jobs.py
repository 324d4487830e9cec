"""gpuguard jobs: run, adopt, list, show, stop, forget, logs."""

import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuguard.commands.context import chosen_hosts, open_desk
from gpuguard.commands.options import Format, HostOption, OutputOption, examples, new_app
from gpuguard.commands.output import (
    Column,
    Listing,
    complain,
    note,
    print_listing,
    print_result,
    write,
)
from gpuguard.commands.text import age, clean, counted, ending, shell_words
from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.jobs import Job, JobState

if TYPE_CHECKING:
    from gpuguard.planning.views import Placed

app = new_app(
    "Run, adopt, list and stop jobs.",
    "gpuguard jobs run llm --host gpu001 -- python3 train.py",
    "gpuguard jobs list",
    "gpuguard jobs logs llm --follow",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The job's name.")]
OneHost = Annotated[str | None, typer.Option("--host", "-w", help="The host it is on.")]
PolicyOption = Annotated[str | None, typer.Option("--policy", help="A policy of the inventory.")]


@app.command(
    epilog=examples(
        "gpuguard jobs run llm --host gpu001 -- python3 train.py --epochs 90",
        "gpuguard jobs run llm --host gpu001 --cwd /srv/llm --env SEED=7 --user ada -- ./train",
    )
)
def run(
    name: NameArgument,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What to run.")
    ] = None,
    host: OneHost = None,
    policy: PolicyOption = None,
    cwd: Annotated[str | None, typer.Option("--cwd", help="Its working folder.")] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="KEY=VALUE", help="May be repeated.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Run as this user.")] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Start a job that can be saved and moved.

    It outlives this command. Without --host and a command, what the inventory says of it holds.
    """
    from gpuguard.running.jobs import Launch, launch

    wish = Launch(name, host, tuple(command or ()), policy, cwd, _variables(env or []), user)
    with open_desk() as desk:
        place, job = launch(desk, wish)
    return _print_started(place, job, output)


@app.command(epilog=examples("gpuguard jobs adopt llm --host gpu001 --pid 4711"))
def adopt(
    name: NameArgument,
    host: Annotated[str, typer.Option("--host", "-w", help="The host it runs on.")],
    pid: Annotated[int, typer.Option("--pid", min=2, help="Its first process.")],
    policy: PolicyOption = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """Take over a process that runs already, with its children."""
    from gpuguard.running.jobs import Launch, launch

    with open_desk() as desk:
        place, job = launch(desk, Launch(name, host, policy=policy, pid=pid))
    return _print_started(place, job, output)


@app.command(
    "list", epilog=examples("gpuguard jobs list -w gpu[001-004]", "gpuguard jobs list -o json")
)
def list_jobs(
    host: HostOption = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Also what hosts remember of copies elsewhere.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> int:
    """List the jobs of all hosts; hosts that do not answer are named."""
    from gpuguard.running.listing import list_jobs as look
    from gpuguard.running.listing import without_old

    with open_desk() as desk:
        seen = look(desk, chosen_hosts(desk.inventory, host))
    shown = seen.items if every or output is not Format.TABLE else without_old(seen.items)
    print_listing(Listing("gpuguard.jobs/1", shown, _COLUMNS, seen.errors, "no jobs"), output)
    hidden = len(seen.items) - len(shown)
    if hidden:
        note(f"{counted(hidden, 'old record')} hidden: --all")
    return int(seen.exit_code)


@app.command(epilog=examples("gpuguard jobs show llm", "gpuguard jobs show llm -o json"))
def show(name: NameArgument, host: OneHost = None, output: OutputOption = Format.TABLE) -> int:
    """Show one job: where it is, its processes, its policy."""
    from gpuguard.running.finding import look_up

    with open_desk() as desk:
        found = look_up(desk, name, host)
    place = found.place
    _note_silent(found.silent)
    item = {"host": place.host, **place.job.to_dict()}
    print_result("gpuguard.job/1", item, output, _job_lines(item))
    return 0


@app.command(epilog=examples("gpuguard jobs stop llm", "gpuguard jobs stop llm eval --grace 60"))
def stop(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The jobs' names.")],
    host: OneHost = None,
    grace: Annotated[
        float | None, typer.Option("--grace", min=0, help="Seconds between TERM and KILL.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> int:
    """End jobs without a checkpoint: TERM, a time of grace, KILL."""
    from gpuguard.running.jobs import stop as end

    chosen = list(dict.fromkeys(names))
    with open_desk() as desk:
        if len(chosen) > 1:
            return _stop_several(lambda name: end(desk, name, host, grace), chosen, output)
        place = end(desk, chosen[0], host, grace)
    item = {"host": place.host, **place.job.to_dict()}
    print_result("gpuguard.job/1", item, output, _stopped(place))
    return 0


def _stop_several(end: "Callable[[str], Placed]", names: list[str], output: Format) -> int:
    """End each of `names`; one that fails does not keep the others."""
    items: list[dict[str, Any]] = []
    errors: list[tuple[str, GpuguardError]] = []
    for name in names:
        try:
            place = end(name)
        except GpuguardError as error:
            errors.append((name, error))
            continue
        items.append({"host": place.host, **place.job.to_dict()})
        if output is Format.TABLE:
            write(_stopped(place))
    if output is Format.TABLE:
        for _, reason in errors:
            complain(reason.message, reason.hint)
    else:
        told = [{"job": name, **reason.to_dict()} for name, reason in errors]
        print_listing(Listing("gpuguard.jobs/1", items, _COLUMNS, told), output)
    if not errors:
        return int(ExitCode.OK)
    return int(ExitCode.PARTIAL if items else errors[0][1].exit_code)


def _stopped(place: "Placed") -> str:
    job = place.job
    code = ending(job.exit_code) or "with an exit code nobody knows"
    return f"{job.spec.name} on {place.host}: {job.state.value} {code}"


@app.command(epilog=examples("gpuguard jobs forget llm", "gpuguard jobs forget llm --force"))
def forget(
    name: NameArgument,
    host: OneHost = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it runs: it then runs on unwatched.")
    ] = False,
) -> int:
    """Drop a job's record from its host; its checkpoints stay."""
    from gpuguard.running.jobs import forget as drop

    with open_desk() as desk:
        place = drop(desk, name, host, force)
    note(f"{place} has forgotten {name}; its checkpoints stay in their store")
    return 0


@app.command(epilog=examples("gpuguard jobs logs llm -n 100", "gpuguard jobs logs llm --follow"))
def logs(
    name: NameArgument,
    host: OneHost = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones.")] = False,
) -> int:
    """Print the end of what a job wrote to stdout and stderr."""
    from gpuguard.commands.reader import reader_watched
    from gpuguard.running.finding import look_up
    from gpuguard.running.jobs import logs as read

    def show_text(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    with open_desk() as desk, reader_watched() if follow else nullcontext():
        found = look_up(desk, name, host)
        _note_silent(found.silent)
        read(desk, found.place, lines, follow, show_text)
    return int(ExitCode.OK)


def _note_silent(hosts: tuple[str, ...]) -> None:
    if hosts:
        note(f"{', '.join(hosts)} did not answer")


_COLUMNS = (
    Column("HOST", lambda item: item["host"]),
    Column("JOB", lambda item: item["spec"]["name"]),
    Column("STATE", lambda item: _state(item)),
    Column("EPOCH", lambda item: item["epoch"], right=True),
    Column("PROCESSES", lambda item: item["processes"], right=True),
    Column("AGE", lambda item: age(item["started_at"]), right=True),
    Column("POLICY", lambda item: item["spec"]["policy_name"]),
    Column("COMMAND", lambda item: shell_words(item["spec"]["command"])[:60]),
)


def _variables(words: list[str]) -> dict[str, str]:
    pairs = {word: word.partition("=") for word in words}
    for word, (name, equals, _) in pairs.items():
        if not equals or not name:
            raise UsageError(
                f"--env {shlex.quote(word)}: not of the form KEY=VALUE", "such as --env SEED=7"
            )
    return {name: value for name, _, value in pairs.values()}


def _print_started(host: str, job: Job, output: Format) -> int:
    """Say how the job began, or how it has ended already; return 1 if it ended badly."""
    name = job.spec.name
    ended = job.state in (JobState.EXITED, JobState.LOST)
    if ended:
        text = f"{name} {_ended(job, host)}"
    else:
        pid = f", pid {job.root.pid}" if job.root else ""
        text = f"{name} {job.state.value} on {host}{pid}, epoch {job.epoch}"
    print_result("gpuguard.job/1", {"host": host, **job.to_dict()}, output, text)
    if output is Format.TABLE:
        note(f"next: gpuguard {'jobs logs' if ended else 'checkpoint'} {name}")
    return int(ExitCode.FAILED if ended and job.exit_code != 0 else ExitCode.OK)


def _ended(job: Job, host: str) -> str:
    if job.exit_code is None:
        return f"ended on {host}, with an exit code nobody knows"
    if job.exit_code < 0:
        return f"was ended on {host} by {ending(job.exit_code)}"
    return f"exited on {host} with code {job.exit_code}"


def _state(item: dict[str, Any]) -> str:
    """Return the state, with the exit code of a job that ended."""
    return f"{item['state']} {ending(item['exit_code'])}".rstrip()


def _job_lines(item: dict[str, Any]) -> list[str]:
    spec, root, policy = item["spec"], item["root"], item["policy"]
    rows = {
        "job": spec["name"],
        "host": item["host"],
        "state": item["state"],
        "note": item["note"],
        "held by": _held_by(item.get("held_by")),
        "exit code": item["exit_code"],
        "epoch": item["epoch"],
        "pid": root and root["pid"],
        "processes": item["processes"],
        "origin": item["origin"],
        "started": item["started_at"],
        "command": shlex.join(spec["command"]),
        "folder": spec["cwd"],
        "user": spec["user"],
        "log": item["log"],
        "policy": spec["policy_name"],
        "store": policy["store"],
        "lease": f"{policy['lease']:g} s" if policy.get("lease") else None,
    }
    return [
        f"{name + ':':<11} {clean(str(value))}"
        for name, value in rows.items()
        if value not in (None, "")
    ]


def _held_by(held: dict[str, Any] | None) -> str | None:
    if not held:
        return None
    asked_by = f" of {held['asked_by']}" if held.get("asked_by") else ""
    return f"{held.get('kind')} {held.get('procedure')}{asked_by} since {held.get('since')}"
