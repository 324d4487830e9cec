"""What an operator wishes for, before anything was looked at."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointRequest:
    """Save these jobs; with `stop`, end each once its checkpoint is durable."""

    jobs: tuple[str, ...]
    stop: bool = False


@dataclass(frozen=True)
class RestoreRequest:
    """Bring `job` back; None means: choose. `assume_dead` names the host a person vouches for.

    `power_off`: the silent host that holds the job may be switched off for it.
    """

    job: str
    checkpoint: str | None = None
    to: str | None = None
    assume_dead: str | None = None
    power_off: bool = False


@dataclass(frozen=True)
class MigrateRequest:
    """Move `job`; without `to` the host is chosen."""

    job: str
    to: str | None = None
