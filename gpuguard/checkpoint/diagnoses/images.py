"""Causes found in lines about the images: space, completeness, and who carries them."""

from collections.abc import Mapping
from typing import Any

from gpuguard.checkpoint.diagnoses.facts import amount, first, show, size_text
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, fill, job, rule, told

_SPACE = r"space|free|need|disk|stage|store|images?_|path|size|bytes|quota"
_IMAGES = r"image|checkpoint|file|dir|path"


def _disk_full(sight: Sight) -> Finding:
    needed = amount(sight.context, "needed", "bytes_needed", "space_needed", "image")
    free = amount(sight.context, "free", "bytes_free", "space_free", "available")
    sizes = f", {size_text(needed)} needed" if needed is not None else ""
    sizes += f", {size_text(free)} free" if free is not None else ""
    return Finding(
        "disk_full",
        fill("The disk (file system) for the images on {host} is full: no space left", sight)
        + f"{sizes}. The image is incomplete; earlier checkpoints are untouched.",
        f"Make room: gpuguard checkpoints list {job(sight)} and gpuguard checkpoints rm for old "
        f"ones, or name a larger stage; then: gpuguard checkpoint {job(sight)}.",
    )


def _torso(sight: Sight) -> Finding:
    good = first(sight.context, "previous", "last_good", "earlier", "last_verified")
    good = good.get("id") if isinstance(good, Mapping) else good
    source: Any = f" --from {show(good)}" if good else ""
    return Finding(
        "image_incomplete",
        "An image file is empty or cut off: the dump that wrote it was interrupted, so this "
        "checkpoint is incomplete and cannot be restored.",
        f"Restore the checkpoint before it: gpuguard checkpoints list {job(sight)}, then gpuguard "
        f"restore {job(sight)}{source or ' --from ID'}.",
    )


RULES = (
    rule(r"(?i)No space left on device|Disk quota exceeded", _disk_full, _SPACE),
    rule(
        r"Read-only file system",
        told(
            "file_system_read_only",
            "A file system that CRIU must write to on {host} is read-only.",
            "See dmesg on {HOST} for storage errors, mount it writable or name another stage, "
            "then: gpuguard doctor {HOST}.",
        ),
        _SPACE,
    ),
    rule(
        r"Can't write pages to socket|page[- ]server.*(?:Broken pipe|Connection)",
        told(
            "page_server_died",
            "The page server that received the memory pages ended in the middle of the dump "
            "(broken pipe); the job runs on, the image is incomplete.",
            "See why it ended on its host (space, memory, link), start it again, then: gpuguard "
            "checkpoint {job}.",
        ),
        r"page_server|server|host|port",
    ),
    rule(
        r"Unable to spice data: Broken pipe|image streamer",
        told(
            "image_streamer_died",
            "The process that should take the images from CRIU (image streamer) is not there or "
            "ended in the middle.",
            "Start the streamer before CRIU and look at its own log, then: gpuguard checkpoint "
            "{job}.",
        ),
        r"stream",
    ),
    rule(r"Unexpected EOF on|Unexpected end of file|Can't read \S*\s?image", _torso, _IMAGES),
    rule(
        r"Can't open (?:dir|image dir\w*) (?P<path>[^\s:]+)",
        told(
            "image_directory_missing",
            "The folder for the images, {path}, does not exist or cannot be opened on {host}.",
            "Make it (mkdir -p, mode 0700, root) or check its mount, then: gpuguard doctor {HOST}.",
        ),
        _IMAGES,
    ),
    rule(
        r"(?:Unable to open|Can't open|No) (?P<path>[\w./-]+\.img)\b",
        told(
            "image_incomplete",
            "{path} is missing in the checkpoint or cannot be read; the image is incomplete.",
            "Check it: gpuguard checkpoints verify {job}; then restore an earlier one: gpuguard "
            "restore {job} --from ID.",
        ),
        _IMAGES,
    ),
    rule(
        r"Script (?P<script>\S+) exited with|One (?:of|or) more action scripts failed",
        lambda sight: Finding(
            "hook_refused",
            f"The hook script {sight.groups.get('script') or ''} said no".replace("  ", " ")
            + ": at a dump the image was not found complete and the job runs on, at a restore "
            "it was stopped.",
            "Look for its reason in the log, then: gpuguard ops list, gpuguard checkpoint "
            f"{job(sight)}.",
        ),
        r"script|hook|gate|reason",
    ),
    rule(
        r"Lazy pages transfer FAILED|Can't read async pr bytes|splice: -1: Bad file descriptor",
        told(
            "lazy_transfer_failed",
            "The transfer of memory pages on demand (lazy pages) failed; it does not work from a "
            "live source with {criu}, and not for GPU jobs.",
            "Use a plain dump and restore: gpuguard migrate {job}.",
        ),
        r"lazy",
    ),
)
