"""The table of commands: name, where its code is, and its one line of help.

Each row is imported only when its command is used, so that help answers at once.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One command: `target` is `module:attribute`, a Typer app or a function."""

    name: str
    target: str
    help: str


COMMANDS: tuple[Row, ...] = (
    Row(
        "inventory", "gpuguard.commands.inventory:app", "Show, check, make or import the inventory."
    ),
    Row("hosts", "gpuguard.commands.hosts:app", "Trust host keys and look at hosts."),
    Row(
        "doctor",
        "gpuguard.commands.doctor:app",
        "Say what would stop a checkpoint or restore on each host.",
    ),
    Row("jobs", "gpuguard.commands.jobs:app", "Run, adopt, list and stop jobs."),
    Row("checkpoint", "gpuguard.commands.checkpoint:app", "Save running jobs to their store."),
    Row(
        "checkpoints",
        "gpuguard.commands.checkpoints:app",
        "List, show, verify and remove checkpoints.",
    ),
    Row("restore", "gpuguard.commands.restore:app", "Bring a job back from a checkpoint."),
    Row("migrate", "gpuguard.commands.migrate:app", "Move a running job to another host."),
    Row("cordon", "gpuguard.commands.cordon:cordon_app", "Keep new work off hosts."),
    Row("uncordon", "gpuguard.commands.cordon:uncordon_app", "Lift a cordon of yours."),
    Row("xid", "gpuguard.commands.xid:app", "Explain a GPU fault, or read a kernel log."),
    Row("ops", "gpuguard.commands.ops:app", "Look at what was done from here, and how it ended."),
    Row("config", "gpuguard.commands.config:app", "Show the settings and where each comes from."),
    Row(
        "completion", "gpuguard.commands.completion:app", "Print the completion script for a shell."
    ),
    Row("info", "gpuguard.commands.info:app", "Print versions, paths and tools found."),
    Row("sandbox", "gpuguard.commands.sandbox:app", "Run a practice fleet on this machine."),
)
