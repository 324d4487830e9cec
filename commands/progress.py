"""Show what happens on stderr: live on a terminal, one line a step elsewhere."""

import sys
import threading
from typing import Any, Self

from gpuguard.commands.options import When, settings
from gpuguard.commands.output import colored, paint
from gpuguard.commands.text import clean, seconds
from gpuguard.running.desk import Progress

# Words between the two sides stay in the journal: gpuguard ops show.
_QUIET_STATES = frozenset({"begin", "progress", "note", "asked", "told"})
_MARKS = {
    "failed": "red",
    "undone": "yellow",
    "lost": "yellow",
    "back": "green",
    "warning": "yellow",
}


class Reporter:
    """Takes every progress of a run; safe to call from several threads."""

    def __init__(self) -> None:
        wish = settings().progress
        self._quiet = settings().quiet or wish is When.NEVER
        self._live_wanted = wish is When.ALWAYS or (wish is When.AUTO and colored(sys.stderr))
        self._live: Any = None
        self._now: dict[tuple[str, str | None], str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def show(self, progress: Progress) -> None:
        """Show one progress."""
        if self._quiet:
            return
        with self._lock:
            if self._live_wanted:
                self._update(progress)
            if progress.state not in _QUIET_STATES:
                self._write(line(progress))

    def _write(self, text: str) -> None:
        if self._live is not None:
            from rich.text import Text  # noqa: TID251

            self._live.console.print(Text.from_ansi(text))
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def _update(self, progress: Progress) -> None:
        """Keep one moving line for each host and job that is at work."""
        key = (progress.host, progress.job)
        if progress.state in ("begin", "progress"):
            detail = f" {progress.text}" if progress.text else ""
            self._now[key] = clean(f"{progress.host} {progress.job or ''} {progress.step}{detail}")
        else:
            self._now.pop(key, None)
        if self._live is None:
            self._live = _start_live()
        self._live.update(_spinners(list(self._now.values())))


def line(progress: Progress) -> str:
    """Return one line of text, as in ``gpu001 llm dump 0.56 s``."""
    words = [progress.host, progress.job or "", progress.step]
    if progress.state == "done":
        words.append(seconds(progress.seconds) if progress.seconds is not None else "done")
    else:
        words.append(paint(progress.state, _MARKS.get(progress.state, "dim"), sys.stderr))
    text = " ".join(word for word in words if word)
    return f"{text}: {clean(progress.text)}" if progress.text else text


def _start_live() -> Any:
    from rich.console import Console  # noqa: TID251
    from rich.live import Live  # noqa: TID251

    live = Live(console=Console(stderr=True, highlight=False), transient=True, refresh_per_second=8)
    live.start()
    return live


def _spinners(texts: list[str]) -> Any:
    from rich.console import Group  # noqa: TID251
    from rich.spinner import Spinner  # noqa: TID251
    from rich.text import Text  # noqa: TID251

    return Group(*(Spinner("dots", Text(text)) for text in texts))
