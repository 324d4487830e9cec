"""Every rule of compatibility: where it holds, where not, and with which words."""

from dataclasses import replace
from typing import Any

import pytest

from gpuguard.checkpoint.compatibility import judge, memory_needed, version_numbers
from gpuguard.checkpoint.file_decisions import FileAction, FileDecision
from gpuguard.checkpoint.host_seen import HostSeen, ProgramSeen, Room
from gpuguard.checkpoint.preflight_codes import RULES, by_rule, rule_of
from gpuguard.model.jobs import JobOrigin, JobSpec
from gpuguard.model.manifests import Manifest, OpenFile, ProcessRecord, Times
from gpuguard.model.plans import Finding, Level

LIBRARY = OpenFile("/lib/x.so", 100, 0o100755, False, False, mapped=True, build_id="ab12")
LOG = OpenFile("/srv/log", 10, 0o100644, True, True, captured="files/0000", locked=True)
MANIFEST = Manifest(
    checkpoint="20260131T120000Z-aaaaaa",
    job=JobSpec("llm", uid="u-1", user="ml"),
    origin=JobOrigin.LAUNCHED,
    host="gpu001",
    epoch=1,
    sequence=1,
    namespace_pid=2,
    shell_job=False,
    criu_options=(),
    times=Times("2026-01-31T12:00:00Z", "2026-01-31T12:00:01Z"),
    bytes=1 << 30,
    files=(),
    tree=(ProcessRecord(2, 1, 1, "train", "/srv", "/bin/train", 1 << 20, uid=1000),),
    open_files=(LIBRARY, LOG),
    versions={"criu": "4.2.1", "kernel": "6.1.0-18-amd64", "arch": "x86_64"},
    cpu_flags=("avx", "avx512f", "smep"),
    listens=("tcp 0.0.0.0:29500",),
)
HOST = HostSeen(
    name="gpu002",
    arch="x86_64",
    kernel="6.1.0-20-amd64",
    criu="4.2.1",
    cpu_flags=("avx", "avx512f"),
    memory_available=2 << 30,
    now="2026-01-31T12:04:00Z",
    job_uid=1000,
    programs={"/lib/x.so": ProgramSeen(100, "ab12"), "/bin/train": ProgramSeen(5)},
    files=(FileDecision("/srv/log", FileAction.CREATE),),
    rooms=(Room("/srv", 10, 1000),),
)


def against(manifest: Manifest, seen: HostSeen) -> dict[str, Finding]:
    return {item.code: item for item in judge(manifest, seen) if item.level is not Level.OK}


def test_every_rule_is_told_when_it_holds() -> None:
    verdict = judge(MANIFEST, HOST)
    assert {item.level for item in verdict} == {Level.OK}
    rules = [item.code for item in verdict]
    assert rules == [rule for rule in RULES if rule in rules]
    assert set(RULES) - set(rules) == {"cordon", "store", "signature", "copies"}
    assert all(item.text and item.subject == "gpu002" for item in verdict)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"criu": None}, "criu-missing", "not installed"),
        ({"criu_problem": "CRIU 4.1 cannot"}, "criu-too-old", "CRIU 4.1 cannot"),
        ({"criu": "4.1.1"}, "criu-older", "4.1.1 is older than 4.2.1"),
        ({"kernel": "5.15.0-91"}, "kernel-older", "5.15.0-91 is older than 6.1.0-18-amd64"),
        ({"arch": "aarch64"}, "arch-other", "it is aarch64, the job needs x86_64"),
        ({"cpu_flags": ("avx",)}, "cpu-flags", "lacks avx512f"),
        ({"programs": {}}, "programs-differ", "/lib/x.so is missing; /bin/train is missing"),
        (
            {"programs": {**HOST.programs, "/lib/x.so": ProgramSeen(99)}},
            "programs-differ",
            "/lib/x.so has 99 bytes, recorded 100",
        ),
        (
            {"programs": {**HOST.programs, "/lib/x.so": ProgramSeen(100, "cd34")}},
            "programs-differ",
            "/lib/x.so has build id cd34, recorded ab12",
        ),
        (
            {"programs": {**HOST.programs, "/lib/x.so": ProgramSeen(100)}},
            "programs-differ",
            "build id none",
        ),
        (
            {
                "files": (
                    FileDecision("/a", FileAction.REFUSE, "/a is missing"),
                    FileDecision("/b", FileAction.REFUSE, "/b has 1 bytes, recorded 2"),
                )
            },
            "files-differ",
            "/a is missing; /b has 1 bytes, recorded 2",
        ),
        ({"locks": ("/srv/log is locked by process 7 (vi)",)}, "lock-held", "process 7 (vi)"),
        ({"blocked": ("/srv",)}, "folder-blocked", "/srv is no folder"),
        ({"job_uid": None}, "user-missing", "user ml does not exist"),
        ({"job_uid": 1001}, "user-other-id", "uid 1001 there; the job comes back as uid 1000"),
        ({"memory_available": 1 << 30}, "memory-short", "1024 MiB of memory free, 1088 MiB"),
        ({"rooms": (Room("/dev/shm", 5 << 20, 1 << 20),)}, "space-short", "/dev/shm has 1.0 MiB"),
        (
            {"taken": {"tcp 0.0.0.0:29500": "process 9 (x)"}},
            "port-taken",
            "29500 is taken by process 9",
        ),
        ({"addresses_missing": ("10.0.0.1",)}, "address-missing", "10.0.0.1"),
        ({"now": "2026-01-31T11:00:00Z"}, "clock-behind", "before the checkpoint"),
    ],
)
def test_what_stands_against_a_host(change: dict[str, Any], code: str, words: str) -> None:
    found = against(MANIFEST, replace(HOST, **change))
    assert set(found) == {code}
    assert words in found[code].text
    assert found[code].remedy
    assert "HOST" not in (found[code].remedy or "")


def test_everything_against_it_is_told_at_once() -> None:
    seen = replace(HOST, criu=None, arch="aarch64", job_uid=None, memory_available=0)
    assert set(against(MANIFEST, seen)) == {
        "criu-missing",
        "arch-other",
        "user-missing",
        "memory-short",
    }


def test_a_checkpoint_that_recorded_little_is_no_reason_to_refuse() -> None:
    bare = replace(MANIFEST, versions={}, cpu_flags=(), listens=(), open_files=(), tree=())
    assert against(bare, replace(HOST, programs={}, rooms=())) == {}


def test_a_removed_program_comes_out_of_the_images() -> None:
    gone = replace(MANIFEST.tree[0], exe="/bin/old (deleted)")
    assert against(replace(MANIFEST, tree=(gone,)), HOST) == {}


def test_versions_are_compared_as_numbers() -> None:
    assert version_numbers("6.10.0-1") > version_numbers("6.9.9")
    assert version_numbers("v4.2") == version_numbers("4.2.0")
    assert version_numbers("unknown") == (0, 0, 0)


def test_memory_is_that_of_the_images_or_else_of_the_living_job() -> None:
    assert memory_needed(MANIFEST) == (1 << 30) + (64 << 20)
    assert memory_needed(replace(MANIFEST, bytes=0)) == (1 << 20) + (64 << 20)


def test_findings_are_grouped_by_rule_in_their_order() -> None:
    verdict = tuple(judge(MANIFEST, replace(HOST, arch="arm", blocked=("/a", "/b"))))
    marked = {group.rule: len(group.findings) for group in by_rule(verdict)}
    assert marked["arch"] == 1
    assert marked["folders"] == 2
    assert rule_of("signature-unknown") == "signature"
    assert rule_of("host-not-judged") == "host-not-judged"
