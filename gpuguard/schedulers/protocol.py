"""What gpuguard asks of a scheduler, whichever it is."""

from typing import Protocol


class Scheduler(Protocol):
    """A scheduler that may know more of a silent host than the host's silence tells."""

    name: str

    def gone(self, host: str, job: str) -> str | None:
        """Return why nothing of `job` can run on `host` any more, in one sentence; None: unknown.

        A node that is merely down or drained is no proof: its processes may live. Only a node whose
        end the scheduler has seen to itself (powered off, its processes killed and reaped) is.

        Raises:
            GpuguardError: the scheduler does not answer.
        """
        ...
