"""What can stand against bringing a job back on a host: gpuguard checkpoints show."""

from gpuguard.checkpoint.code_entry import Code, error, warning

_ANOTHER_HOST = "choose another host"
_SAME_PACKAGES = "install the same version of the package there, or choose another host"

# The rules in the order in which a verdict tells them.
RULES = {
    "cordon": "the host takes new work",
    "store": "the store is in reach and shows the checkpoint whole",
    "signature": "an enrolled host of this fleet signed the checkpoint",
    "copies": "no copy of the job lives on the host",
    "criu": "CRIU is there, and not older than the one that made the checkpoint",
    "kernel": "the kernel is not older",
    "arch": "the machine is of the same kind",
    "cpu": "the CPU has every feature that programs may have chosen their code by",
    "programs": "program and libraries: there, of the same size and build id",
    "files": "open files: there and as they were, or put in place from the checkpoint",
    "locks": "nobody else holds a lock that the job holds",
    "folders": "working directories are there or can be made",
    "user": "the job's user exists, with the same number",
    "memory": "enough memory is free",
    "space": "enough room for the files that are put in place, /dev/shm among them",
    "ports": "the ports the job listens on are free and its addresses exist",
    "pids": "process numbers never clash: the job gets a pid namespace of its own",
    "clock": "the host's clock is not behind the checkpoint",
}

RESTORE: dict[str, Code] = {
    "host-cordoned": error(
        "new work is kept off the host", "gpuguard uncordon HOST, or choose another", "cordon"
    ),
    "store-unreachable": error(
        "the host does not reach the store or cannot write to it, or it is another one than before",
        "mount it there, then gpuguard doctor HOST",
        "store",
    ),
    "checkpoint-damaged": error(
        "the checkpoint is not whole: files missing, extra, cut short, swapped or of another job",
        "restore another checkpoint: gpuguard checkpoints list JOB",
        "store",
    ),
    "signature-missing": error(
        "the checkpoint has no signature", "restore another checkpoint", "signature"
    ),
    "signature-unknown": error(
        "a key signed it that is not enrolled for that host",
        "find out which host wrote it; gpuguard doctor HOST enrols a host's key",
        "signature",
    ),
    "signature-wrong": error(
        "the signature does not fit the manifest: one of them was changed",
        "restore another checkpoint, and keep this one for inspection",
        "signature",
    ),
    "signature-other-node": error(
        "another host of this fleet signed it than the one it names",
        "restore another checkpoint, and keep this one for inspection",
        "signature",
    ),
    "job-here": error(
        "a copy of the job, or its supervisor, lives on the host",
        "stop it first: gpuguard jobs stop JOB",
        "copies",
    ),
    "original-left": error(
        "the adopted original seems to live on the host still",
        "end that process once you know that it is the job's",
        "copies",
    ),
    "criu-missing": error(
        "CRIU is not installed, or does not start", "install CRIU 4.2 or newer there", "criu"
    ),
    "criu-too-old": error(
        "CRIU is too old for the host's kernel", "install CRIU 4.2 or newer there", "criu"
    ),
    "criu-older": error(
        "CRIU is older than the one that made the checkpoint",
        "install the same version there, or a newer one",
        "criu",
    ),
    "kernel-older": error(
        "the kernel is older than the one the job ran on",
        "boot the newer kernel there, or choose another host",
        "kernel",
    ),
    "arch-other": error("the machine is of another kind", _ANOTHER_HOST, "arch"),
    "cpu-flags": error(
        "the CPU lacks features: the job would die of an illegal instruction",
        _ANOTHER_HOST,
        "cpu",
    ),
    "programs-differ": error(
        "program or libraries are missing or differ, in one list", _SAME_PACKAGES, "programs"
    ),
    "files-differ": error(
        "open files are missing or differ and the checkpoint has no copy of them, in one list",
        "copy or mount them there, or choose another host",
        "files",
    ),
    "lock-held": error(
        "another process holds a lock on a file that the job had locked: CRIU would wait for ever",
        "end the process that holds it, or choose another host",
        "locks",
    ),
    "folder-blocked": error(
        "something that is no folder lies where a working directory was",
        "move it away",
        "folders",
    ),
    "user-missing": error("the job's user does not exist", "make the user there", "user"),
    "user-other-id": warning(
        "the job's user has another number there; the job comes back under the recorded one",
        "give the user the same number on every host",
        "user",
    ),
    "memory-short": error(
        "too little memory is free", "free some, or choose another host", "memory"
    ),
    "space-short": error(
        "a file system is too full for the files that are put in place",
        "free some there, or choose another host",
        "space",
    ),
    "port-taken": error(
        "another process uses a port that the job listens on",
        "end that process, or choose another host",
        "ports",
    ),
    "address-missing": error(
        "the job listens on an address that the host does not have",
        "let the job listen on 0.0.0.0, or move the address",
        "ports",
    ),
    "clock-behind": warning(
        "the host's clock is behind the moment of the checkpoint",
        "timedatectl set-ntp true, on both",
        "clock",
    ),
}
