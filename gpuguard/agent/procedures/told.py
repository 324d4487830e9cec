"""Words told to a procedure that holds: files in `told/`, which is closed by a rename.

The rename decides a word that arrives at the deadline: it was in the folder before, and counts,
or it finds no folder and is refused. A word is never taken and ignored.
"""

import time
from pathlib import Path
from typing import Any, Callable, Optional

from gpuguard.agent.clock import boottime
from gpuguard.agent.disk import read_json, write_json
from gpuguard.model.errors import RefusedError

POLL_SECONDS = 0.01
_CALLED_OFF = "called-off.json"

Told = Optional[tuple[str, dict[str, Any]]]


def wait_told(
    folder: Path,
    words: tuple[str, ...],
    seconds: float,
    record: Callable[[dict[str, Any]], None],
) -> Told:
    """Wait until one of `words` is told; `record` gets the facts `holding` and `told`."""
    told = folder / "told"
    told.mkdir(mode=0o700, exist_ok=True)
    deadline = boottime() + seconds
    record({"holding": list(words), "until": deadline})
    answer = _first(told, words)
    while answer is None and boottime() < deadline:
        time.sleep(POLL_SECONDS)
        answer = _first(told, words)
    closed = close_told(folder)
    if answer is None and closed is not None:
        answer = _first(closed, words)
    record({"holding": None, "told": answer[0] if answer else None})
    return answer


def tell(folder: Path, word: str, data: dict[str, Any]) -> None:
    """Leave `word` for the procedure in `folder`; the same word again is no error.

    Raises:
        RefusedError: the procedure does not wait for a word, not yet or no more.
    """
    if any(folder.glob(f"told-*/{word}.json")):
        return
    try:
        write_json(folder / "told" / f"{word}.json", data)
    except FileNotFoundError:
        raise RefusedError(
            f"procedure {folder.name} does not wait for {word!r}",
            f"see where it stands: gpuguard ops show {folder.name}",
        ) from None


def call_off(folder: Path) -> None:
    """Have the procedure in `folder` walk back before its next step, unless it is committed."""
    write_json(folder / _CALLED_OFF, {})


def is_called_off(folder: Path) -> bool:
    """Tell whether somebody called the procedure in `folder` off."""
    return (folder / _CALLED_OFF).exists()


def close_told(folder: Path) -> Optional[Path]:
    """Let no more words in; return the closed folder, None if there was none."""
    closed = folder / f"told-{len(list(folder.glob('told-*'))) + 1}"
    try:
        return (folder / "told").rename(closed)
    except FileNotFoundError:
        return None


def _first(told: Path, words: tuple[str, ...]) -> Told:
    for word in words:
        data = read_json(told / f"{word}.json")
        if data is not None:
            return word, data
    return None
