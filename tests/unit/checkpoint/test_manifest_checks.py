"""A manifest is believed only where it fits its folder, its job and itself."""

import dataclasses
from typing import Any

import pytest

from gpuguard.checkpoint.completeness import judge_images
from gpuguard.checkpoint.cpu import missing_flags
from gpuguard.checkpoint.manifest_checks import (
    check_identity,
    check_images,
    check_listing,
    check_paths,
    chunk_count,
    read_manifest,
    safe_path,
)
from gpuguard.model.jobs import JobOrigin, JobSpec
from gpuguard.model.manifests import (
    CHUNK_BYTES,
    FileHash,
    Manifest,
    OpenFile,
    ProcessRecord,
    Times,
)

ID = "20261129T160000Z-abcdef"


def make(**changes: Any) -> Manifest:
    files = tuple(
        FileHash(f"images/{name}.img", 4, ("0" * 64,)) for name in ("inventory", "pstree", "files")
    )
    manifest = Manifest(
        checkpoint=ID,
        job=JobSpec("job", "uid-1"),
        origin=JobOrigin.LAUNCHED,
        host="h1",
        epoch=1,
        sequence=1,
        namespace_pid=1000,
        shell_job=False,
        criu_options=(),
        times=Times("t", "t"),
        bytes=12,
        files=files,
        tree=(ProcessRecord(1000, 0, 1, "python3", "/srv", "/usr/bin/python3", 1),),
        open_files=(),
        versions={},
    )
    return dataclasses.replace(manifest, **changes)


def sizes(manifest: Manifest) -> dict[str, int]:
    return {"manifest.json": 1, "manifest.sig": 1, **{f.path: f.size for f in manifest.files}}


def codes(found: list[Any]) -> list[str]:
    return [item.code for item in found]


def test_a_sound_manifest_survives_the_round_trip_without_findings() -> None:
    manifest, found = read_manifest(make().to_dict(), ID)
    assert manifest == make()
    assert not found
    assert not check_identity(make(), ID, "job", "uid-1")
    assert not check_paths(make(), ID)
    assert not check_listing(make(), ID, sizes(make()))
    assert not check_images(make(), ID)


def test_an_unknown_format_is_named() -> None:
    manifest, found = read_manifest({**make().to_dict(), "format": 99}, ID)
    assert manifest is None
    assert codes(found) == ["manifest-format"]
    assert "99" in found[0].text


@pytest.mark.parametrize("data", [None, [], "x", {"format": 1}, {**make().to_dict(), "files": 3}])
def test_what_is_no_manifest_is_no_manifest(data: Any) -> None:
    manifest, found = read_manifest(data, ID)
    assert manifest is None
    assert len(found) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "../x",
        "images/../../x",
        "images//x",
        "images/./x",
        "x",
        "other/x",
        "images/",
        "",
    ],
)
def test_a_path_that_could_leave_the_folder_is_found(path: str) -> None:
    assert not safe_path(path)
    bad = make(files=(*make().files, FileHash(path, 0, ())))
    assert codes(check_paths(bad, ID)) == ["manifest-path"]


def test_a_file_named_twice_is_found() -> None:
    assert codes(check_paths(make(files=make().files * 2), ID)) == ["manifest-path"]


@pytest.mark.parametrize("path", ["relative", "/srv/../etc/passwd", "/a\0b"])
def test_a_target_path_that_climbs_is_found(path: str) -> None:
    bad = make(open_files=(OpenFile(path, 1, 0o100644, True, False),))
    assert codes(check_paths(bad, ID)) == ["manifest-path"]


def test_a_captured_copy_must_be_among_the_hashed_files() -> None:
    open_file = OpenFile("/srv/log", 1, 0o100644, True, False, captured="files/0001")
    assert codes(check_paths(make(open_files=(open_file,)), ID)) == ["manifest-path"]


def test_identity_is_of_checkpoint_job_and_uid() -> None:
    assert codes(check_identity(make(), "20261129T160000Z-000000", "other", "uid-2")) == [
        "manifest-other-checkpoint",
        "manifest-other-job",
        "manifest-other-uid",
    ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"images/extra.img": 4}, "file-extra"),
        ({"images/pstree.img": 3}, "file-size"),
        ({"images/pstree.img": 5}, "file-size"),
        ({"images/pstree.img": None}, "file-missing"),
    ],
)
def test_the_folder_is_compared(change: dict[str, Any], code: str) -> None:
    listing = {**sizes(make()), **change}
    listing = {path: size for path, size in listing.items() if size is not None}
    assert codes(check_listing(make(), ID, listing)) == [code]


def test_hash_count_and_total_are_checked() -> None:
    assert [chunk_count(n) for n in (0, 1, CHUNK_BYTES, CHUNK_BYTES + 1)] == [0, 1, 1, 2]
    bad = make(files=(*make().files, FileHash("images/pages-1.img", CHUNK_BYTES + 1, ("0" * 64,))))
    listing = {**sizes(make()), "images/pages-1.img": CHUNK_BYTES + 1}
    assert codes(check_listing(bad, ID, listing)) == ["manifest-hashes", "manifest-total"]


def test_images_must_name_every_process_and_hold_its_memory() -> None:
    tree = make().tree
    names = ["core", "mm", "pagemap", "ids", "fs"]
    whole = {f"{name}-1000.img": 10 for name in names}
    whole |= {"inventory.img": 1, "pstree.img": 1, "files.img": 1, "pages-1.img": 200 << 20}
    assert judge_images(whole, tree, 200 << 20) == []
    assert judge_images({**whole, "mm-1000.img": 0}, tree, 0) == ["mm-1000.img is empty"]
    short = {name: size for name, size in whole.items() if name != "core-1000.img"}
    assert judge_images(short, tree, 0) == ["core-1000.img is missing"]
    assert "memory" in judge_images({**whole, "pages-1.img": 4096}, tree, 200 << 20)[0]


def test_only_features_programs_choose_by_must_be_there() -> None:
    assert missing_flags(["avx2", "amx_tile", "ibrs_enhanced"], ["avx2"]) == ["amx_tile"]
