"""Judge a manifest against the folder it lies in, before anything else is believed of it."""

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from gpuguard.checkpoint.naming import is_checkpoint_id
from gpuguard.model.manifests import CHUNK_BYTES, FORMAT_VERSION, Manifest
from gpuguard.model.plans import Finding, Level

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
OWN_FILES = (MANIFEST, SIGNATURE)
SUBFOLDERS = ("images", "files", "logs")
_OTHER = "restore another checkpoint (gpuguard checkpoints list), and keep this one for inspection"


def finding(code: str, subject: str, text: str, remedy: Optional[str] = _OTHER) -> Finding:
    """Build an error finding about a checkpoint."""
    return Finding(Level.ERROR, code, subject, text, remedy)


def read_manifest(data: Any, checkpoint: str) -> tuple[Optional[Manifest], list[Finding]]:
    """Turn decoded JSON into a Manifest, or say why it cannot be one."""
    if not isinstance(data, dict):
        return None, [finding("manifest-unreadable", checkpoint, "manifest.json is no JSON object")]
    if data.get("format") != FORMAT_VERSION:
        text = (
            f"the manifest has format {data.get('format')!r}; "
            f"this gpuguard reads format {FORMAT_VERSION}"
        )
        remedy = "use the gpuguard version that made this checkpoint, or a newer one"
        return None, [finding("manifest-format", checkpoint, text, remedy)]
    try:
        return Manifest.from_dict(data), []
    except ValueError as error:
        return None, [finding("manifest-unreadable", checkpoint, f"manifest.json: {error}")]


def check_identity(
    manifest: Manifest, checkpoint: str, job: str, uid: Optional[str]
) -> list[Finding]:
    """Check that the manifest belongs to this folder, this job and this job's uid."""
    found = []
    if manifest.checkpoint != checkpoint or not is_checkpoint_id(manifest.checkpoint):
        text = f"the manifest is of checkpoint {manifest.checkpoint}"
        found.append(finding("manifest-other-checkpoint", checkpoint, text))
    if manifest.job.name != job:
        text = f"the manifest is of job {manifest.job.name}, not {job}"
        found.append(finding("manifest-other-job", checkpoint, text))
    if uid is not None and manifest.job.uid != uid:
        text = f"the manifest is of another job that was also called {job} (uid {manifest.job.uid})"
        found.append(finding("manifest-other-uid", checkpoint, text))
    return found


def check_paths(manifest: Manifest, checkpoint: str) -> list[Finding]:
    """Check that no path of the manifest leads out of its folder."""
    paths = [item.path for item in manifest.files]
    found = [
        finding("manifest-path", checkpoint, f"the manifest names {path!r}, outside its folder")
        for path in paths
        if not safe_path(path)
    ]
    if len(set(paths)) != len(paths):
        found.append(finding("manifest-path", checkpoint, "the manifest names a file twice"))
    listed = set(paths)
    for item in manifest.open_files:
        if item.captured is not None and not (safe_path(item.captured) and item.captured in listed):
            text = f"the copy of {item.path} is said to be {item.captured!r}, which is not listed"
            found.append(finding("manifest-path", checkpoint, text))
    for path in _target_paths(manifest):
        if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
            text = f"the job's file {path!r} is not a plain absolute path"
            found.append(finding("manifest-path", checkpoint, text))
    return found


def safe_path(path: str) -> bool:
    """Tell whether `path` stays inside one of a checkpoint's own subfolders."""
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") for part in parts) and "\0" not in path
    return plain and len(parts) >= 2 and parts[0] in SUBFOLDERS


def check_listing(manifest: Manifest, checkpoint: str, sizes: Mapping[str, int]) -> list[Finding]:
    """Compare the files named with those that lie there; `sizes` maps relative paths to bytes."""
    found = []
    named = {item.path: item for item in manifest.files}
    for path in sorted(sizes.keys() - named.keys() - set(OWN_FILES)):
        found.append(finding("file-extra", checkpoint, f"{path} is not in the manifest"))
    for path, item in named.items():
        if path not in sizes:
            found.append(finding("file-missing", checkpoint, f"{path} is missing"))
        elif sizes[path] != item.size:
            word = "cut short" if sizes[path] < item.size else "longer than recorded"
            text = f"{path} is {word}: {sizes[path]} bytes, recorded {item.size}"
            found.append(finding("file-size", checkpoint, text))
        if len(item.sha256) != chunk_count(item.size):
            text = f"{path} has {len(item.sha256)} hashes for {item.size} bytes"
            found.append(finding("manifest-hashes", checkpoint, text))
    if sum(item.size for item in manifest.files) != manifest.bytes:
        text = "the manifest's total does not equal the sum of its files"
        found.append(finding("manifest-total", checkpoint, text))
    return found


def chunk_count(size: int) -> int:
    """Return how many hashes a file of `size` bytes has."""
    return (size + CHUNK_BYTES - 1) // CHUNK_BYTES


def check_images(manifest: Manifest, checkpoint: str) -> list[Finding]:
    """Check that the images CRIU cannot do without are listed."""
    listed = {item.path for item in manifest.files}
    needed = ("images/inventory.img", "images/pstree.img", "images/files.img")
    return [
        finding("image-missing", checkpoint, f"{path} is not part of the checkpoint")
        for path in needed
        if path not in listed
    ]


def _target_paths(manifest: Manifest) -> Iterable[str]:
    yield from (item.path for item in manifest.open_files)
    yield from (process.cwd for process in manifest.tree if process.cwd)
