"""Keep the public keys of nodes whose manifests a restore believes, beside the inventory."""

from pathlib import Path

from gpuguard.remote.signers import enrol as record
from gpuguard.remote.signers import read


def enrol(folder: Path, host: str, public_key: str) -> None:
    """Record the signing key that `host` showed over its verified connection.

    Raises:
        RefusedError: another key is on record for the host.
    """
    record(folder, host, public_key)


def allowed_signers(folder: Path) -> str:
    """Return the text of the file of enrolled keys; empty before the first contact."""
    return read(folder)
