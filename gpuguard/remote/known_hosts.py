"""Read and write OpenSSH's known_hosts files; what one line gets wrong spoils no other."""

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from gpuguard.model.errors import GpuguardError
from gpuguard.remote.text_files import locked, read_lines, replace_text

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)


@dataclass(frozen=True)
class HostKey:
    """A public host key as it stands in known_hosts and on the wire."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint as `ssh-keygen -l` prints it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode()
        return "SHA256:" + digest.rstrip("=")

    @property
    def bits(self) -> int:
        """The size of the key, as `ssh-keygen -l` counts it."""
        if self.type == "ssh-rsa":
            number = self.blob[4 + len(self.type) :]
            exponent = 4 + int.from_bytes(number[:4], "big")
            return int.from_bytes(number[exponent + 4 :], "big").bit_length()
        return int(self.type[-3:]) if self.type.startswith("ecdsa-") else 256

    def described(self, name: str) -> str:
        """The line that `ssh-keygen -l` prints for the key of `name`."""
        kind = self.type.removeprefix("ssh-").split("-")[0].upper()
        return f"{self.bits} {self.fingerprint} {name} ({kind})"

    @property
    def text(self) -> str:
        """Type and key as in a public key file."""
        return f"{self.type} {base64.b64encode(self.blob).decode()}"


@dataclass(frozen=True)
class Entry:
    """One usable line."""

    patterns: str
    key: HostKey
    revoked: bool
    number: int  # of the line, from 1

    def names(self, name: str) -> bool:
        """Say whether the line speaks of `name`, such as `gpu001` or `[gpu001]:2222`."""
        if self.patterns.startswith("|1|"):
            return _hash_matches(self.patterns, name)
        hit = False
        for pattern in self.patterns.split(","):
            if pattern.startswith("!"):
                if _glob(pattern[1:], name):
                    return False
            elif _glob(pattern, name):
                hit = True
        return hit


@dataclass(frozen=True)
class KnownHosts:
    """What one file says, and notes on the lines that were passed over."""

    path: Path
    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()


class Standing(Enum):
    """What the files say of a key that a host shows."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Finding:
    """The standing, and the entry that decided it."""

    standing: Standing
    entry: Entry | None = None
    path: Path | None = None


def parse_public_key(text: str) -> HostKey | None:
    """Return the key in `type base64 [comment]`, or None if it is none."""
    words = text.split()
    if len(words) < 2:
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    head = len(words[0]).to_bytes(4, "big") + words[0].encode()
    return HostKey(words[0], blob) if blob.startswith(head) and len(blob) > len(head) else None


def read_known_hosts(path: Path) -> KnownHosts:
    """Return the entries of `path`; a missing file is empty; raise GpuguardError if unreadable."""
    try:
        seen = path.stat()
        return _read(path, (seen.st_ino, seen.st_size, seen.st_mtime_ns))
    except (FileNotFoundError, NotADirectoryError):
        return KnownHosts(path)
    except OSError as error:
        raise GpuguardError(f"{path}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=16)
def _read(path: Path, version: tuple[int, int, int]) -> KnownHosts:
    """Read `path` once a version: a thousand hosts share the same few files."""
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    entries: list[Entry] = []
    notes: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _parse(line, number)
        if isinstance(found, Entry):
            entries.append(found)
        elif found:
            notes.append(f"{path}:{number}: {found}")
    return KnownHosts(path, tuple(entries), tuple(notes))


def judge(files: Sequence[KnownHosts], names: Sequence[str], key: HostKey) -> Finding:
    """Say what `files`, the first that knows the host first, make of `key` shown by `names`."""
    for known in files:
        for entry in known.entries:
            if entry.revoked and entry.key == key and _any_name(entry, names):
                return Finding(Standing.REVOKED, entry, known.path)
    for known in files:
        ours = [e for e in known.entries if not e.revoked and _any_name(e, names)]
        for entry in ours:
            if entry.key == key:
                return Finding(Standing.KNOWN, entry, known.path)
        if ours:
            same_type = [e for e in ours if e.key.type == key.type] or ours
            return Finding(Standing.CHANGED, same_type[0], known.path)
    return Finding(Standing.UNKNOWN)


def known_types(files: Iterable[KnownHosts], names: Sequence[str]) -> list[str]:
    """Return the key types on record for the host, so that it is asked for these first."""
    found: list[str] = []
    for known in files:
        for entry in known.entries:
            if not entry.revoked and _any_name(entry, names) and entry.key.type not in found:
                found.append(entry.key.type)
    return found


def lookup_name(address: str, port: int) -> str:
    """Return the name under which OpenSSH keeps `address` and `port`."""
    return address if port == 22 else f"[{address}]:{port}"


def record(path: Path, name: str, key: HostKey, replace: bool = False) -> None:
    """Write `key` for `name` into `path`, whole or not at all; `replace` drops its other keys.

    Raises:
        GpuguardError: the file cannot be written, or is a symbolic link.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            lines = read_lines(path)
            if replace:
                lines = [line for line in lines if not _speaks_of(line, name)]
            new = f"{name} {key.text}"
            if new not in lines:
                lines.append(new)
            replace_text(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise GpuguardError(f"{path}: cannot be written: {error.strerror or error}") from error


def _speaks_of(line: str, name: str) -> bool:
    """Say whether `line` holds a plain key of `name` alone; wildcards and marks stay."""
    found = _parse(line, 0)
    if not isinstance(found, Entry) or found.revoked or not found.names(name):
        return False
    return not any(sign in found.patterns for sign in "*?!")


def _parse(line: str, number: int) -> Entry | str:
    """Return the entry, or a note why the line is passed over; empty for comments."""
    words = line.split()
    if not words or words[0].startswith("#"):
        return ""
    revoked = words[0] == "@revoked"
    if words[0].startswith("@"):
        if not revoked:
            return f"{words[0]} lines are not used"
        words = words[1:]
    if len(words) < 3:
        return "not of the form `names type key`"
    if words[1] not in KEY_TYPES:
        return f"key type {words[1]} is not used"
    key = parse_public_key(" ".join(words[1:3]))
    if key is None:
        return f"what follows {words[1]} is no such key"
    return Entry(words[0], key, revoked, number)


def _any_name(entry: Entry, names: Sequence[str]) -> bool:
    return any(entry.names(name) for name in names)


def _hash_matches(pattern: str, name: str) -> bool:
    try:
        _, _, salt, digest = pattern.split("|")
        expected = base64.b64decode(digest, validate=True)
        made = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1).digest()
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(made, expected)


def _glob(pattern: str, name: str) -> bool:
    """Match as OpenSSH does: `*` and `?` alone are special, case does not count."""
    pattern, name = pattern.lower(), name.lower()
    if "*" not in pattern and "?" not in pattern:
        return pattern == name  # nearly all lines: worth not to compile a pattern for each
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
