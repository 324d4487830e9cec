"""Sign manifests with the node's own key, and check whose signature one carries."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpuguard.checkpoint.manifest_checks import MANIFEST, SIGNATURE, finding
from gpuguard.model.errors import GpuguardError
from gpuguard.model.plans import Finding

NAMESPACE = "gpuguard-manifest"
KEY_NAME = "manifest_ed25519"
_SECONDS = 30.0
_ENROL = "enrol the node's key (gpuguard doctor says how), or restore a checkpoint of another node"


def ensure_key(keys: Path) -> Path:
    """Return the node's private signing key below `keys`, made on first use.

    Raises:
        GpuguardError: ssh-keygen is missing or cannot write the key.
    """
    key = keys / KEY_NAME
    public = key.with_suffix(".pub")
    if not key.exists():
        keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_key(key)
    if not public.exists():
        _write_public(key, public)
    return key


def _make_key(key: Path) -> None:
    with tempfile.TemporaryDirectory(dir=key.parent) as folder:
        fresh = Path(folder) / KEY_NAME
        command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuguard", "-f", fresh)
        _run(tuple(map(str, command)), "make the signing key of this node")
        # Of several agents at once the first one wins, and the others use its key.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, key)


def _write_public(key: Path, public: Path) -> None:
    line = _run(("ssh-keygen", "-y", "-f", str(key)), "read the signing key of this node")
    with tempfile.TemporaryDirectory(dir=key.parent) as folder:
        fresh = Path(folder) / public.name
        fresh.write_bytes(line)
        fresh.replace(public)


def public_key(keys: Path) -> str:
    """Return the node's public signing key as one line."""
    return Path(f"{ensure_key(keys)}.pub").read_text().strip()


def sign_manifest(key: Path, folder: Path) -> None:
    """Write manifest.sig beside manifest.json in `folder`.

    Raises:
        GpuguardError: ssh-keygen failed.
    """
    manifest = (folder / MANIFEST).read_bytes()
    command = ("ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key))
    signature = _run(command, "sign the manifest", manifest)
    target = folder / SIGNATURE
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(signature)
        file.flush()
        os.fsync(file.fileno())


def check_signature(
    manifest: bytes, signature: Path, signer: str, allowed_signers: str
) -> list[Finding]:
    """Check that `signer` of this fleet signed `manifest`; an empty list means it did.

    `allowed_signers` is the text of the operator's file of that name, see ssh-keygen(1).
    """
    if not signature.is_file() or signature.is_symlink():
        return [finding("signature-missing", signer, "the checkpoint has no signature")]
    with tempfile.TemporaryDirectory() as folder:
        signers = Path(folder) / "allowed_signers"
        signers.write_text(allowed_signers)
        options = ("-f", str(signers), "-n", NAMESPACE, "-s", str(signature))
        command = ("ssh-keygen", "-Y", "verify", *options, "-I", signer)
        if _verdict(command, manifest):
            return []
        if _verdict(("ssh-keygen", "-Y", "check-novalidate", *options[2:]), manifest):
            found = _principals(options)
            if found and signer not in found:
                return [_foreign(signer, found)]
            text = f"the checkpoint is signed by a key that is not enrolled for {signer}"
            return [finding("signature-unknown", signer, text, _ENROL)]
    text = f"the signature of {signer} does not fit the manifest: one of them was changed"
    return [finding("signature-wrong", signer, text)]


def _foreign(signer: str, found: Sequence[str]) -> Finding:
    text = f"the checkpoint says it is of {signer}, but {', '.join(found)} signed it"
    return finding("signature-other-node", signer, text)


def _principals(options: Sequence[str]) -> list[str]:
    command = ("ssh-keygen", "-Y", "find-principals", *options[:2], *options[4:])
    done = subprocess.run(
        command, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False
    )
    return done.stdout.decode(errors="replace").split() if done.returncode == 0 else []


def _verdict(command: Sequence[str], manifest: bytes) -> bool:
    done = subprocess.run(
        command, input=manifest, capture_output=True, timeout=_SECONDS, check=False
    )
    return done.returncode == 0


def _run(command: Sequence[str], purpose: str, data: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=_SECONDS, check=False
        )
    except OSError as error:
        hint = "install the OpenSSH client tools on this node"
        raise GpuguardError(f"cannot {purpose}: {error}", hint) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise GpuguardError(f"cannot {purpose}: ssh-keygen says: {said}")
    return done.stdout
