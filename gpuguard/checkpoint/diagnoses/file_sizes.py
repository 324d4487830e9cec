"""Causes found in sizes: files that grew or changed, deleted ones above the limit."""

import re

from gpuguard.checkpoint.diagnoses.facts import first, size_text
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, job, rule

_MIB = 1 << 20
_PROGRAM = re.compile(r"\.so(?:\.|$)|(?:^|/)(?:s?bin|lib(?:32|64|exec)?)/")


def absolute(path: str) -> str:
    """Return a path of a log line from the root on."""
    # CRIU prints paths relative to the job's root.
    return path if path.startswith("/") else "/" + (path[2:] if path.startswith("./") else path)


def _bad_size(sight: Sight) -> Finding:
    path = absolute(sight.groups["path"] or "")
    now, recorded = int(sight.groups["now"] or 0), int(sight.groups["recorded"] or 0)
    flags = str(first(sight.context, "open_flags", "flags") or "")
    output = not _PROGRAM.search(path) and "O_RDONLY" not in flags
    return (
        _grown(sight, path, now, recorded)
        if now > recorded and output
        else _changed(sight, path, now, recorded)
    )


def _grown(sight: Sight, path: str, now: int, recorded: int) -> Finding:
    return Finding(
        "file_grew_since_dump",
        f"{path} is longer than at the checkpoint: {now} bytes now, {recorded} recorded. For an "
        f"output file of the job this is harmless: everything after byte {recorded} was written "
        "after the checkpoint.",
        "If it is an output file of the job and no copy of the job still writes it: keep the tail "
        f"aside (tail -c +{recorded + 1} {path} > {path}.after-checkpoint), cut the file back to "
        f"the recorded size (truncate -s {recorded} {path}), then: gpuguard restore {job(sight)}. "
        "In future start the job with its log in append mode (>>), which is not checked.",
    )


def _changed(sight: Sight, path: str, now: int, recorded: int) -> Finding:
    change = "longer" if now > recorded else "shorter"
    return Finding(
        "file_changed_since_dump",
        f"{path} is another file than at the checkpoint: {now} bytes now, {recorded} recorded "
        f"({change}). It is a program, a library or data that the job reads, or it was cut since.",
        f"Put the version of {path} with {recorded} bytes back (same package version, or a copy "
        "from the source host) or restore where it is unchanged: "
        f"gpuguard restore {job(sight)} --to HOST.",
    )


def _ghost(sight: Sight) -> Finding:
    path, size = absolute(sight.groups["path"] or ""), int(sight.groups["size"] or 0)
    needed = -(-size // _MIB)
    limit = first(sight.context, "ghost_limit")
    extra = (
        " It looks like a program that a package upgrade replaced while it ran."
        if _PROGRAM.search(path)
        else ""
    )
    return Finding(
        "ghost_file_too_large",
        f"{path} was deleted but is still open in the job; it has {size_text(size)}, and only "
        f"deleted files up to {limit or '1 MiB'} go into an image.{extra}",
        f"Repeat the dump with a ghost limit of at least {needed} MiB (--ghost-limit {needed}M); "
        f"the image grows by that much: gpuguard checkpoint {job(sight)}.",
    )


RULES = (
    rule(
        r"File (?P<path>.+) has bad size (?P<now>\d+) \(expect (?P<recorded>\d+)\)",
        _bad_size,
        r"file|path|^fd$|flag|host|destination",
    ),
    rule(r"Can't dump ghost file (?P<path>.+) of (?P<size>\d+) size", _ghost, r"ghost|delet"),
)
