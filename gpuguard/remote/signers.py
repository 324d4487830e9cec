"""The nodes whose manifests a restore believes: `allowed_signers` beside the inventory."""

import re
from pathlib import Path

from gpuguard.model.errors import GpuguardError, RefusedError
from gpuguard.remote.known_hosts import HostKey, parse_public_key
from gpuguard.remote.text_files import locked, read_lines, replace_text

FILE = "allowed_signers"
NAMESPACE = "gpuguard-manifest"

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def read(folder: Path) -> str:
    """Return the text of the file in `folder`; empty before the first enrolment.

    Raises:
        GpuguardError: the file cannot be read.
    """
    path = folder / FILE
    try:
        return "".join(f"{line}\n" for line in read_lines(path))
    except OSError as error:
        raise GpuguardError(f"{path}: cannot be read: {error.strerror}") from error


def enrol(folder: Path, host: str, public_key: str, replace: bool = False) -> bool:
    """Record the signing key that `host` showed over its verified connection.

    Returns whether the file was changed; the same key again changes nothing.

    Raises:
        RefusedError: another key is on record for the host, and `replace` is not set.
        GpuguardError: the key is no Ed25519 key, or the file cannot be written.
    """
    key = _checked(host, public_key)
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(path):
            lines = read_lines(path)
            known = [line for line in lines if _host_of(line) == host]
            if any(_key_of(line) == key for line in known):
                return False
            if known and not replace:
                raise _changed(path, host, key, _key_of(known[0]))
            kept = [line for line in lines if line not in known]
            line = f'{host} namespaces="{NAMESPACE}" {key.text}'
            replace_text(path, "\n".join([*kept, line]) + "\n")
            return True
    except OSError as error:
        raise GpuguardError(f"{path}: cannot be written: {error.strerror or error}") from error


def enrolled(folder: Path) -> dict[str, HostKey]:
    """Return the enrolled key of each host."""
    found: dict[str, HostKey] = {}
    for line in read(folder).splitlines():
        key = _key_of(line)
        if key is not None:
            found[_host_of(line)] = key
    return found


def _checked(host: str, public_key: str) -> HostKey:
    # A name such as `*` would let one node sign for all.
    if not _HOST.fullmatch(host):
        raise GpuguardError(f"{host!r} is no host name that can be enrolled")
    key = parse_public_key(public_key)
    if key is None or key.type != "ssh-ed25519":
        raise GpuguardError(
            f"{host}: what it shows as its signing key is no Ed25519 key: {public_key[:80]!r}",
            f"look for what is wrong with the agent's folder: gpuguard doctor {host}",
        )
    return key


def _host_of(line: str) -> str:
    return line.split(maxsplit=1)[0] if line.strip() and not line.startswith("#") else ""


def _key_of(line: str) -> HostKey | None:
    found = re.search(r"\bssh-ed25519\s+\S+", line)
    return parse_public_key(found[0]) if found else None


def _changed(path: Path, host: str, found: HostKey, known: HostKey | None) -> RefusedError:
    shown = known.fingerprint if known else "a key that cannot be read"
    return RefusedError(
        f"{host}: its signing key has CHANGED: it shows {found.fingerprint}, "
        f"enrolled in {path} is {shown}; its earlier checkpoints would no longer be believed",
        f"if the host was reinstalled: gpuguard hosts enroll --replace {host}",
        {"reason": "changed-signing-key", "host": host},
    )
