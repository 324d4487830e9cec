"""Causes found in lines about terminals and sessions."""

from gpuguard.checkpoint.diagnoses.facts import first, show
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, host, job, rule, told


def _no_tty(sight: Sight) -> Finding:
    fd = sight.fd()
    by = first(sight.context, "invoked_by", "started_by", "caller")
    stdin = first(sight.context, "restore_stdin", "stdin")
    runs = f", it runs from {show(by)}" if by else ""
    runs += f" with standard input from {show(stdin)}" if stdin else ""
    was = "a tty" if fd is None else f"fd {fd} was a tty"
    return Finding(
        "no_tty_for_shell_job",
        f"The image expects a terminal ({was}), and this restore is without a terminal{runs}.",
        "Give the restore a pseudo-terminal (pty): gpuguard restore "
        f"{job(sight)} from a terminal, or by hand `ssh -tt {host(sight)} criu restore …` or "
        " `script -qec 'criu restore …' /dev/null`, with --shell-job as at the dump. In future "
        "start jobs in their own session without a terminal, output appended to a file (gpuguard "
        "jobs run does so).",
    )


_SHELL_JOB = (
    "Repeat with --shell-job (the restore then needs a terminal as well): gpuguard checkpoint "
    "{job}. Better: start the job in its own session without a terminal, as gpuguard jobs run does."
)

RULES = (
    rule(r"Don't have tty to inherit session from", _no_tty, r"invoked|stdin|tty|terminal"),
    rule(
        r"Found slave peer index .*without correspond master",
        told(
            "shell_job_option_missing",
            "The image was made from a job on a terminal (--shell-job), and this restore lacks "
            "that option.",
            "Restore with --shell-job and from a terminal (ssh -tt, or script): gpuguard restore "
            "{job}.",
        ),
        r"option|tty|terminal",
    ),
    rule(
        r"Found dangling tty with sid (?P<sid>\d+)",
        told(
            "terminal_in_use",
            "The job was started from a terminal: it has a tty (pts) open that belongs to session "
            "{sid} outside the job.",
            _SHELL_JOB,
        ),
        r"tty|terminal|sid|fd",
    ),
    rule(
        r"The root process (?P<pid>\d+) is not a session leader",
        told(
            "not_session_leader",
            "The job's first {task} is not a session leader: it was started without setsid, its "
            "session belongs to a shell outside the job.",
            _SHELL_JOB,
        ),
        r"pid|sid|session",
    ),
)
