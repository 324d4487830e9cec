"""Read prefixes once: a log repeats them, and floods must not pay for each line."""

from dataclasses import replace
from typing import Optional

from gpuguard.health.stamps import Prefix, read_prefix

_MOST = 4096


class Prefixes:
    """Keep what prefixes say, as long as they are few."""

    def __init__(self) -> None:
        self._known: dict[bytes, Prefix] = {}

    def of(self, raw: bytes, outer: Optional[Prefix] = None, traced: bool = False) -> Prefix:
        """Return what `raw` says; inside of a record with an origin, that is told by the record."""
        if outer is not None:
            inner = self.of(raw) if raw.strip() else outer
            return replace(outer, relayed=True) if inner.relayed else outer
        known = self._known.get(raw)
        if known is None:
            known = read_prefix(raw.decode("utf-8", "replace"), traced)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[raw] = known
        return known

    def boot_seconds(self, raw: bytes) -> Optional[float]:
        """Return the seconds of a stamp of the boot's clock that the kernel set, and of no other.

        This is the fast way for floods: None only means to read the prefix in full.
        """
        try:
            if raw[:1] == b"[" and raw[-2:] == b"] ":
                return float(raw[1:-2])
            if raw[-1:] == b";":
                priority, _, usec, _ = raw.split(b",", 3)
                return int(usec) / 1e6 if int(priority) < 8 else None
        except ValueError:
            return None
        return None
