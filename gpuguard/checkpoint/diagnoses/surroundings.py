"""Causes found in lines about host, kernel, rights, mounts, space and images."""

from typing import Any

from gpuguard.checkpoint.diagnoses.facts import entries, first, pick, show
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, fill, job, rule, told

_MOUNTS = r"mount|mnt|namespace|container"
_RIGHTS = r"uid|user|cap|right|sudo"


def _cpu(sight: Sight) -> Finding:
    needed = _flags(pick(sight.context, "record", "cpu_flags"))
    here = _flags(pick(sight.context, "destination", "cpu_flags"))
    lacking = first(sight.context, "missing_flags", "cpu_flags_missing", "flags_missing")
    lacking = lacking or (sorted(needed - here) if here else None)
    hosts = [
        show(entry.get("host") or entry.get("name"))
        for entry in entries(sight.context, "fleet", "hosts", "candidates")
        if (needed and needed <= _flags(entry.get("cpu_flags"))) or entry.get("same_cpu")
    ]
    place = hosts[0] if hosts else "HOST"
    which = f" (missing: {show(lacking)})" if lacking else ""
    return Finding(
        "cpu_features_missing",
        fill("The CPU of {host} lacks instructions that the image was made with", sight)
        + f"{which}; the job would die by an illegal instruction.",
        "Restore on a host whose CPU has all flags of the source, such as the source or one of the "
        f"same model: gpuguard restore {job(sight)} --to {place}.",
    )


def _flags(value: Any) -> set[str]:
    names = value.split() if isinstance(value, str) else value
    return {show(name) for name in names} if isinstance(names, (list, tuple)) else set()


def _sharing(sight: Sight) -> Finding:
    return Finding(
        "mount_sharing_unreachable",
        fill(
            "The job lives in its own mount namespace, and its mount {mount} receives mounts from "
            "one outside (slave, master_id {master}) that CRIU cannot reach.",
            sight.having(
                mount=sight.groups.get("mount") or "of a sharing group",
                master=sight.groups.get("master") or "unknown",
            ),
        ),
        fill(
            "Save it with --external mnt[]:m (or --enable-external-masters) or from inside its "
            "namespace, as gpuguard does for jobs that it started: gpuguard checkpoint {job}. For "
            "a container use the runtime's own checkpoint.",
            sight,
        ),
    )


RULES = (
    rule(
        r"CPU (?:instruction )?capabilities do not match", _cpu, r"cpu|flag|host|record|dest|fleet"
    ),
    rule(
        r"Tracking memory is not available|BUG at \S*mem\.c:\d+|Pid-reuse detection failed",
        told(
            "no_memory_tracking",
            "The {kernel} of {host} cannot track changed memory (CONFIG_MEM_SOFT_DIRTY is "
            "missing), which CRIU needs for incremental dumps (pre-dump, --track-mem).",
            "Take full dumps only, without pre-dump, --track-mem and --prev-images-dir: gpuguard "
            "checkpoint {job}.",
        ),
        r"kernel|soft|option",
    ),
    rule(
        r"(?P<bug>BUG at \S+)",
        told(
            "criu_internal_error",
            "{criu} stopped at an internal check ({bug}); this is an error in CRIU, not in the "
            "job.",
            "Keep the log for a report to CRIU, try a newer release on {HOST} and look at what "
            "is unusual in the job: gpuguard jobs show {job}.",
            "medium",
        ),
        r"criu|kernel|rc",
    ),
    rule(
        r"CAP_CHECKPOINT_RESTORE|CAP_SYS_ADMIN|Unable to drop capability|Can't get rlimit \d+: "
        r"Operation not permitted",
        told(
            "missing_capability",
            "CRIU ran on {host} without the rights (capabilities) it needs: it must be root with "
            "the full set, or have CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, CAP_SYS_PTRACE and "
            "CAP_SYS_RESOURCE.",
            "Run it as root through a sudo -n rule, outside containers that take capabilities "
            "away; then: gpuguard doctor {HOST}.",
        ),
        _RIGHTS,
    ),
    rule(
        r"mnt: (?P<id>\d+):(?P<mount>\S+) doesn't have a proper root mount",
        told(
            "own_mount_namespace",
            "The job lives in its own mount namespace, and CRIU looked at it from outside: mount "
            "{mount} has no root there that CRIU knows.",
            "Dump from inside its namespace (nsenter into pid and mount namespace) or map the "
            "mounts with --external mnt[]; gpuguard does so for jobs that it started: gpuguard "
            "checkpoint {job}.",
        ),
        _MOUNTS,
    ),
    rule(
        r"(?:Mount \d+ (?P<mount>[^\s(]*) ?\(master_id: (?P<master>\d+).*|Sharing group.*)"
        r"has unreachable sharing",
        _sharing,
        _MOUNTS,
    ),
    rule(
        r"(?P<what>invalid argument for -\S+.*|unrecognized option.*|[Uu]nknown option.*)"
        r"|pid not specified",
        told(
            "criu_refused_an_option",
            "{criu} on {host} did not accept how it was called ({what}); options differ between "
            "its versions.",
            "Compare its version (criu --version) with what gpuguard needs: gpuguard doctor "
            "{HOST}.",
            "medium",
        ),
        r"criu|option",
    ),
    rule(
        r"Cannot allocate memory|Can't restore \w+ mapping with 0xf{15}4\b",
        told(
            "host_memory_full",
            "There was not enough memory on {host} for {task}: the kernel refused more.",
            "Compare free memory and memory.max of the job's cgroup with the size of the image, "
            "free some or take another host: gpuguard restore {job} --to OTHER_HOST.",
        ),
        r"mem|free|need|cgroup",
    ),
    rule(
        r"The root task has another root than mntns: (?P<root>\S+)",
        told(
            "job_in_a_chroot",
            "The job runs in a plain chroot ({root}) inside another mount namespace, which CRIU "
            "does not take.",
            "Start the job with a proper root of its own mount namespace (pivot_root, or gpuguard "
            "jobs run), then: gpuguard checkpoint {job}.",
        ),
        _MOUNTS + "|root",
    ),
    rule(
        r"Can't stat mountpoint (?P<mount>\S+?)(?::|$|\s)",
        told(
            "mount_missing_at_destination",
            "{mount}, a mount of the source host, does not exist on {host}.",
            "Make or mount {mount} on {host}, then: gpuguard restore {job}.",
        ),
        _MOUNTS,
    ),
)
