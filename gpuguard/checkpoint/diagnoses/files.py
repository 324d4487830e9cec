"""Causes found in lines about files, locks and directories."""

import re

from gpuguard.checkpoint.diagnoses.driver_versions import driver_differs
from gpuguard.checkpoint.diagnoses.facts import first, number
from gpuguard.checkpoint.diagnoses.file_sizes import absolute
from gpuguard.checkpoint.diagnoses.rules import Explain, Finding, Sight, fill, job, rule, told

_CWD = re.compile(r"(Can't open cwd)")
_FILES = r"file|path|fd|flag|size|lock|cwd|host|destination|fleet"


def _with_path(explain: Explain) -> Explain:
    def wrapped(sight: Sight) -> Finding:
        return explain(sight.having(path=absolute(sight.groups.get("path") or "")))

    return wrapped


def _missing(sight: Sight) -> Finding:
    path = absolute(sight.groups["path"] or "")
    if sight.later(_CWD):
        return _CWD_MISSING(sight.having(path=path))
    differing = driver_differs(sight, path)
    if differing:
        return differing
    return Finding(
        "file_missing_at_destination",
        f"{path} does not exist on " + fill("{host}, and the job has it open or mapped.", sight),
        fill(
            "Copy or mount it on {host} at the same path, as every other file that the job needs ",
            sight,
        )
        + f"(its manifest lists them all, see gpuguard checkpoints list {job(sight)}), then: "
        f"gpuguard restore {job(sight)}.",
    )


_CWD_MISSING = told(
    "working_directory_missing",
    "The working directory (cwd) of {task} does not exist on {host}: {path}.",
    "Make the directory or mount it on {host} (mkdir -p {path}, same owner and rights), then: "
    "gpuguard restore {job}.",
)


def _locks(sight: Sight) -> Finding:
    count = number(first(sight.context, "locks"))
    several = f"{count} locks" if count else "a file lock (flock or fcntl)"
    return Finding(
        "file_locks_held",
        fill("{task} holds ", sight) + f"{several}, and the dump was not told to save file locks.",
        f"Repeat with --file-locks: gpuguard checkpoint {job(sight)}. At the restore nobody else "
        "may hold the same lock, or CRIU waits for ever.",
    )


RULES = (
    rule(
        r"Can't create link remap for (?P<path>.+?)\. Use link-remap",
        _with_path(
            told(
                "link_remap_needed",
                "{path} was deleted under this name while another link to it (or a POSIX "
                "semaphore or shared memory) is still in use by the job.",
                "Repeat with --link-remap and keep the link_remap files with the image: gpuguard "
                "checkpoint {job}. Or remove the other hard link.",
            )
        ),
        _FILES,
    ),
    rule(
        r"Can't link (?P<path>\S*link_remap\.\d+) -> (?P<target>.+?): No such file",
        _with_path(
            told(
                "link_remap_missing",
                "The helper link {path} for {target} is not on {host}: the image was made with "
                "the job left running (which removes the links again), or /dev/shm did not move "
                "along.",
                "Put the link_remap files that were saved with the checkpoint back to their "
                "places, then: gpuguard restore {job}. A checkpoint without them cannot be "
                "restored; take an earlier one: gpuguard checkpoints list {job}.",
            )
        ),
        _FILES,
    ),
    rule(
        r"Can't link remap to (?P<path>.+?): File exists",
        _with_path(
            told(
                "link_remap_left_over",
                "A link_remap file of an earlier dump was left over beside {path}, and CRIU cannot "
                "make its own there.",
                "Look for link_remap.* beside it that no other dump or restore is using, move them "
                "away, then: gpuguard checkpoint {job}.",
                "medium",
            )
        ),
        _FILES,
    ),
    rule(r"Some file locks are hold by dumping tasks", _locks, r"lock|file"),
    rule(r"Can't open file (?P<path>.+) on restore: No such file", _missing, _FILES + "|missing"),
    rule(
        r"(?:stat|mount for|mount|open) (?P<path>/(?!proc/)[^\s:]+)[^/]*: [Nn]o such file or dir",
        _missing,
        _FILES + "|missing",
    ),
    rule(
        r"Can't open file (?P<path>.+) on restore: (?P<error>.+)",
        _with_path(
            told(
                "file_not_accessible",
                "{path} exists on {host} but cannot be opened ({error}).",
                "Give it back owner, rights and mount options as on the source, then: gpuguard "
                "restore {job}.",
            )
        ),
        _FILES,
    ),
    rule(
        r"File (?P<path>.+?) has bad build-ID",
        _with_path(
            told(
                "library_changed",
                "{path} on {host} is another build (build id) than the one that the job has "
                "mapped: the library or program was upgraded or rebuilt.",
                "Install the same package version on {host} as at the checkpoint, or restore on a "
                "host that has it: gpuguard restore {job} --to HOST.",
            )
        ),
        _FILES + "|build|package|version|librar",
    ),
    rule(
        r"File (?P<path>.+) has bad mode (?P<now>\d+) \(expect (?P<recorded>\d+)\)",
        _with_path(
            told(
                "file_mode_differs",
                "{path} has mode {now} on {host}, at the checkpoint it had {recorded}: its rights "
                "were changed.",
                "Set the mode back with chmod (the last four digits of {recorded}) on {path}, "
                "then: gpuguard restore {job}.",
            )
        ),
        _FILES + "|mode",
    ),
    rule(
        r"Can't open cwd",
        told(
            "working_directory_missing",
            "The working directory (cwd) of {task} does not exist on {host}.",
            "Make the directory or mount it on {host} (mkdir -p, same owner and rights), then: "
            "gpuguard restore {job}.",
        ),
        r"cwd|dir|path|host",
    ),
    rule(
        r"Can't lookup mount=\S+ for fd=(?P<fd>\d+) path=(?P<path>\S+)",
        told(
            "file_on_unknown_mount",
            "{task} has {path} open (fd {fd}) on a mount that CRIU cannot see: a POSIX message "
            "queue, or a file system that was unmounted or is hidden from it.",
            "Close that file or start the job without the message queue, then: gpuguard "
            "checkpoint {job}.",
            "medium",
        ),
        _FILES,
    ),
)
