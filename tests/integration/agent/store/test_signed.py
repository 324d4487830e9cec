"""Signed checkpoints: what is believed, what is refused and why, what is never removed."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuguard.agent.store.hashing import list_files
from gpuguard.agent.store.reading import list_checkpoints, show_checkpoint
from gpuguard.agent.store.verify import verify_checkpoint
from gpuguard.agent.store.write import make_partial, remove_checkpoint
from gpuguard.checkpoint.naming import make_checkpoint_id
from gpuguard.model.errors import RefusedError
from tests.integration.agent.signed import publish, signers
from tests.unit.agent.checkpoints import JOB, fill_stage


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return fill_stage(tmp_path / "stage")


def check(store: Path, folder: Path, allowed: str) -> list[str]:
    found = verify_checkpoint(str(store), JOB, folder.name, allowed, lambda done, total: None)
    return [item.code for item in found]


def test_a_published_checkpoint_is_durable_private_and_verified(
    store: Path, keys: Path, stage: Path
) -> None:
    folder = publish(store, keys, stage)
    assert check(store, folder, signers(keys)) == []
    assert [info.state for info in list_checkpoints(str(store), JOB)] == ["durable"]
    shown = show_checkpoint(str(store), JOB, folder.name)
    assert shown["manifest"]["host"] == shown["info"]["host"] == "h1"
    for top, folders, files in os.walk(folder):
        assert all(stat.S_IMODE((Path(top) / name).stat().st_mode) == 0o700 for name in folders)
        assert all(stat.S_IMODE((Path(top) / name).stat().st_mode) == 0o600 for name in files)


def test_verification_reports_every_byte(store: Path, keys: Path, stage: Path) -> None:
    folder = publish(store, keys, stage)
    seen: list[tuple[int, int]] = []
    verify_checkpoint(
        str(store), JOB, folder.name, signers(keys), lambda done, total: seen.append((done, total))
    )
    total = sum(list_files(stage).values())
    assert max(seen) == (total, total)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("one bit of memory", lambda f: flip(f / "images/pages-1.img"), "file-hash"),
    ("one bit of a captured file", lambda f: flip(f / "files/0000"), "file-hash"),
    ("truncated", lambda f: os.truncate(f / "images/pages-1.img", 4096), "file-size"),
    ("longer", lambda f: os.truncate(f / "images/pages-1.img", 1 << 20), "file-size"),
    ("missing image", lambda f: (f / "images/pstree.img").unlink(), "file-missing"),
    ("extra image", lambda f: (f / "images/x.img").write_bytes(b""), "file-extra"),
    ("link", lambda f: (f / "images/x.img").symlink_to("/etc/shadow"), "file-odd"),
    ("no manifest", lambda f: (f / "manifest.json").unlink(), "manifest-unreadable"),
    ("half a manifest", lambda f: os.truncate(f / "manifest.json", 99), "manifest-unreadable"),
    ("no signature", lambda f: (f / "manifest.sig").unlink(), "signature-missing"),
    ("changed note", lambda f: rewrite(f, notes=["hello"]), "signature-wrong"),
    ("other format", lambda f: rewrite(f, format=2), "manifest-format"),
    ("other job", lambda f: rewrite(f, job={"name": "x", "uid": "uid-1"}), "manifest-other-job"),
    ("other uid", lambda f: rewrite(f, job={"name": JOB, "uid": "z"}), "manifest-other-uid"),
]


@pytest.mark.parametrize(("damage", "code"), [d[1:] for d in DAMAGES], ids=[d[0] for d in DAMAGES])
def test_each_damage_has_its_own_finding(
    store: Path, keys: Path, stage: Path, damage: Callable[[Path], object], code: str
) -> None:
    folder = publish(store, keys, stage)
    damage(folder)
    assert code in check(store, folder, signers(keys))


def test_a_manifest_that_is_a_link_is_not_read(store: Path, keys: Path, stage: Path) -> None:
    folder = publish(store, keys, stage)
    (folder / "manifest.json").rename(store / "elsewhere.json")
    (folder / "manifest.json").symlink_to(store / "elsewhere.json")
    assert "manifest-unreadable" in check(store, folder, signers(keys))


def test_an_unknown_key_and_another_nodes_key_are_told_apart(
    store: Path, keys: Path, stage: Path, tmp_path: Path
) -> None:
    folder = publish(store, keys, stage)
    other = tmp_path / "other-keys"
    assert check(store, folder, "") == ["signature-unknown"]
    assert check(store, folder, signers(other)) == ["signature-unknown"]
    assert check(store, folder, signers(keys, host="h2")) == ["signature-other-node"]
    assert check(store, folder, signers(other) + signers(keys, "h2")) == ["signature-other-node"]


def test_a_signature_for_another_purpose_does_not_count(
    store: Path, keys: Path, stage: Path
) -> None:
    folder = publish(store, keys, stage)
    mail = signers(keys).replace("gpuguard-manifest", "file")
    assert check(store, folder, mail) == ["signature-unknown"]


def test_partial_and_broken_ones_are_listed_last_and_named(
    store: Path, keys: Path, stage: Path
) -> None:
    good = publish(store, keys, stage)
    broken = publish(store, keys, stage, sequence=9)
    (broken / "images/pages-1.img").unlink()
    make_partial(good.parent, make_checkpoint_id())
    (good.parent / "notes.txt").write_text("not a checkpoint")
    listed = list_checkpoints(str(store))
    assert [info.state for info in listed] == ["durable", "broken", "partial"]
    assert listed[0].checkpoint == good.name
    assert "pages-1.img is missing" in (listed[1].problem or "")


def test_the_last_durable_checkpoint_is_not_removed(store: Path, keys: Path, stage: Path) -> None:
    first, second = publish(store, keys, stage), publish(store, keys, stage, sequence=2)
    remove_checkpoint(str(store), JOB, first.name)
    with pytest.raises(RefusedError, match="last durable"):
        remove_checkpoint(str(store), JOB, second.name)
    assert second.is_dir()
    remove_checkpoint(str(store), JOB, second.name, force=True)
    assert list_checkpoints(str(store), JOB) == []
