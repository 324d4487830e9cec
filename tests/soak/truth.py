"""What must be on disk: the text a job writes, and checkpoints whose hashes are right."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuguard.sandbox.workloads.chain import (
    BLOCK,
    Part,
    advance,
    first_block,
    first_state,
    mix,
    places_of,
)

CHUNK = 16 * 1024 * 1024
VISIT = 2


class _Memory(dict[int, bytearray]):
    def __init__(self, seed: bytes) -> None:
        super().__init__()
        self._seed = seed

    def __missing__(self, index: int) -> bytearray:
        self[index] = first_block(self._seed, index)
        return self[index]


class _Kept:
    def __init__(self, state: bytes) -> None:
        self._state = state

    def __call__(self, digest: bytes) -> bytes:
        self._state = mix(self._state, digest)
        return self._state


class Expected:
    """The only text that one unbroken run of a job can write, made as far as it is asked for."""

    def __init__(self, seed: str, size_mib: int, parts: tuple[str, ...]) -> None:
        key = bytes.fromhex(seed)
        self._blocks = size_mib * 1024 * 1024 // BLOCK
        self._memory = _Memory(key)
        self._parts: list[Part] = [_Kept(first_state(key, name)) for name in parts]
        self._digest = first_state(key, "main")
        self._number = 0
        named = ",".join(parts)
        self._text = bytearray(
            f"start seed={seed} blocks={self._blocks} visit={VISIT} {named}\n".encode()
        )

    def differs(self, log: bytes) -> str | None:
        """Return where `log` leaves the one unbroken run, None if it does not."""
        while len(self._text) < len(log):
            self._number += 1
            places = places_of(self._number, self._blocks, VISIT)
            self._digest = advance(self._digest, self._number, self._memory, places, self._parts)
            self._text += f"step {self._number} {self._digest.hex()}\n".encode()
        if self._text.startswith(log):
            return None
        pairs = zip(log.split(b"\n"), bytes(self._text).split(b"\n"), strict=False)
        for line, (got, due) in enumerate(pairs, 1):
            if got != due:
                return f"line {line} is {got[:60]!r}, an unbroken run has {due[:60]!r}"
        return "it is longer than an unbroken run"


@dataclass
class Kept:
    """One checkpoint in the store, as its files say."""

    folder: Path
    job: str
    order: tuple[int, int]  # epoch, sequence
    log_size: int  # bytes the job's log had when it was frozen
    raw: bytes = b""
    wrong: list[str] = field(default_factory=list)


def read_kept(folder: Path) -> Kept:
    """Read one checkpoint's manifest; what is wrong with it is noted, nothing is raised for it."""
    kept = Kept(folder, folder.parent.name, (0, 0), 0)
    try:
        kept.raw = (folder / "manifest.json").read_bytes()
        data: dict[str, Any] = json.loads(kept.raw)
        kept.order = (data["epoch"], data["sequence"])
        kept.log_size = _log_size(data)
        if data["checkpoint"] != folder.name or data["job"]["name"] != kept.job:
            kept.wrong.append("its manifest is that of another checkpoint")
    except (OSError, ValueError, KeyError, TypeError) as error:
        kept.wrong.append(f"no readable manifest: {error!r}")
    return kept


def verify(kept: Kept) -> list[str]:
    """Return what is wrong with the files of a checkpoint, by size and hash of every chunk."""
    found = list(kept.wrong)
    if found:
        return found
    data = json.loads(kept.raw)
    if not (kept.folder / "manifest.sig").exists():
        found.append("no signature")
    for item in data["files"]:
        path = kept.folder / item["path"]
        try:
            got = _hash(path)
        except OSError as error:
            found.append(f"{item['path']}: {error}")
            continue
        if got != (item["size"], item["sha256"]):
            found.append(f"{item['path']}: size or hash differ from the manifest")
    listed = {item["path"] for item in data["files"]}
    if not any(name.startswith("images/pages-") for name in listed):
        found.append("it lists no pages")
    return found


def _hash(path: Path) -> tuple[int, list[str]]:
    size, hashes = 0, []
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            hashes.append(hashlib.sha256(chunk).hexdigest())
    return size, hashes


def _log_size(data: dict[str, Any]) -> int:
    found = [item["size"] for item in data["open_files"] if item["path"] == data.get("log")]
    return int(found[0]) if found else 0
