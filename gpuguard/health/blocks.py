"""Cut a stream of bytes into whole lines, and find the few lines worth reading fast."""

import codecs
from typing import Optional

LONGEST = 1 << 16  # bytes of a line that are read; the rest of it is let go
# What a line worth reading holds; bytes.find is several times faster than any pattern.
NEEDLES = (
    b"Xid (",
    b"NVRM",
    b"pcieport",
    b"nvidia 0",
    b"blocked for more",
    b"pciehp",
    b"Linux version",
    b"nvidia-nvswitch",
    b'"MESSAGE":[',
    b'"MESSAGE" : [',
)


class Lines:
    """Keep what is left of a line until its end comes."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False
        self._decoder: Optional[codecs.IncrementalDecoder] = None
        self._mark: Optional[bytes] = b""  # the first two bytes, until they are there

    def feed(self, data: bytes) -> bytes:
        """Return whole lines, each with its line feed, as far as `data` completes them."""
        data = self._decoded(data)
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return b""
            data, self._skipping = data[end:], False  # the feed ends the line that was cut
        end = data.rfind(b"\n") + 1
        if end == 0:
            return self._hold(data)
        block = self._rest + data[:end]
        self._rest = b""
        return block + self._hold(data[end:])

    def close(self) -> bytes:
        """Return the last line if no line feed ended it."""
        rest, self._rest = (self._mark or b"") + self._rest, b""
        ended, self._skipping = self._skipping, False
        return b"\n" if ended else rest + b"\n" if rest else b""

    def _hold(self, data: bytes) -> bytes:
        """Keep the beginning of a line; one that is far too long is given out cut."""
        self._rest += data
        if len(self._rest) <= 16 * LONGEST:
            return b""
        cut, self._rest, self._skipping = self._rest[:LONGEST], b"", True
        return cut

    def _decoded(self, data: bytes) -> bytes:
        if self._mark is not None:
            data = self._mark + data
            if len(data) < 2:
                self._mark = data
                return b""
            self._mark = None
            if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        if self._decoder is not None:
            return self._decoder.decode(data).encode("utf-8", errors="replace")
        return data


class Finder:
    """Find the lines of a block that hold a needle, from the front to the back."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        places = [(block.find(needle), needle) for needle in NEEDLES]
        self._next = {needle: place for place, needle in places if place >= 0}

    def line_from(self, place: int) -> Optional[tuple[int, int]]:
        """Return begin and end of the first such line from `place` on, None if there is none."""
        block = self._block
        for needle, found in list(self._next.items()):
            if found < place:
                found = block.find(needle, place)
                if found < 0:
                    del self._next[needle]
                else:
                    self._next[needle] = found
        if not self._next:
            return None
        hit = min(self._next.values())
        begin = max(block.rfind(b"\n", 0, hit) + 1, place)
        end = block.find(b"\n", hit)
        return begin, len(block) if end < 0 else end
