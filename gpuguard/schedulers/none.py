"""No scheduler: nobody knows more of a silent host."""


class NoScheduler:
    """The scheduler of a fleet that has none."""

    name = "none"

    def gone(self, host: str, job: str) -> str | None:
        """Return None: nothing is known."""
        return None
