"""What came of one host when many were asked."""

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The value one host gave, or the error that stands in its place."""

    host: Host
    value: T | None = None
    error: GpuguardError | None = None

    @property
    def ok(self) -> bool:
        """Say whether there is a value."""
        return self.error is None

    def get(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)
