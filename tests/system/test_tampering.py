"""A checkpoint that was changed, cut short or forged is refused before CRIU sees it."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal
from gpuguard.sandbox.verification import read_steps
from tests.system.kit import Operator, copies

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(180),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]


@dataclass(frozen=True)
class Saved:
    """An ended job with two checkpoints, and a copy of the newer one as it was made."""

    operator: Operator
    older: str
    newer: str
    pristine: Path

    @property
    def jobs(self) -> Path:
        return self.operator.sandbox.folder.store

    @property
    def folder(self) -> Path:
        return self.jobs / "sealed" / self.newer

    def repair(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.pristine, self.folder, symlinks=True)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("tampering", hosts=2, root=tmp_path_factory.mktemp("fleet"))
    yield made
    made.down()


@pytest.fixture(scope="module")
def saved(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    operator = Operator(sandbox, tmp_path_factory.mktemp("operator"))
    work = ("steps", "--size-mib", "1", "--tick", "0.05")
    operator.run("jobs", "run", "sealed", "--host", "node1", "--", *work)
    operator.run("jobs", "run", "other", "--host", "node2", "--", *work)
    operator.run("checkpoint", "sealed", "other")
    older = operator.newest("sealed")
    operator.run("checkpoint", "sealed", "--stop")
    operator.run("jobs", "stop", "other")
    pristine = tmp_path_factory.mktemp("pristine") / "checkpoint"
    made = Saved(operator, older, operator.newest("sealed"), pristine)
    shutil.copytree(made.folder, pristine, symlinks=True)
    return made


def pages(saved: Saved) -> Path:
    return max((saved.folder / "images").glob("pages-*.img"), key=lambda path: path.stat().st_size)


def flip_a_bit(saved: Saved) -> None:
    data = bytearray(pages(saved).read_bytes())
    data[len(data) // 2] ^= 1
    pages(saved).write_bytes(data)


def cut_short(saved: Saved) -> None:
    pages(saved).write_bytes(pages(saved).read_bytes()[:-4096])


def take_away(saved: Saved) -> None:
    pages(saved).unlink()


def add_a_file(saved: Saved) -> None:
    (saved.folder / "images" / "extra.img").write_bytes(b"x")


def swap_with_the_older(saved: Saved) -> None:
    older = saved.jobs / "sealed" / saved.older / "images"
    mine = saved.folder / "images"
    name = next(path.name for path in sorted(mine.glob("*.img")) if _twins(path, older / path.name))
    shutil.copyfile(older / name, mine / name)


def _twins(one: Path, other: Path) -> bool:
    """Tell whether only a hash can tell the two apart."""
    if not other.exists() or one.stat().st_size != other.stat().st_size:
        return False
    return one.read_bytes() != other.read_bytes()


def edit_manifest(saved: Saved, change: Callable[[dict[str, object]], None]) -> None:
    path = saved.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest, indent=1))


def edit_the_command(saved: Saved) -> None:
    edit_manifest(saved, lambda it: it["criu_options"].append("--action-script"))  # type: ignore[attr-defined]


def lead_outside(saved: Saved) -> None:
    def change(it: dict[str, list[dict[str, str]]]) -> None:
        it["files"][0]["path"] = "images/../../../../etc/shadow"

    edit_manifest(saved, change)  # type: ignore[arg-type]


def link_an_image(saved: Saved) -> None:
    target = saved.pristine / "images" / pages(saved).name
    image = pages(saved)
    image.unlink()
    image.symlink_to(target)


def drop_the_signature(saved: Saved) -> None:
    (saved.folder / "manifest.sig").unlink()


def sign(saved: Saved, key: Path) -> None:
    drop_the_signature(saved)
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "gpuguard-manifest", "-f", str(key)]
    manifest = (saved.folder / "manifest.json").read_bytes()
    made = subprocess.run(command, input=manifest, capture_output=True, check=True)
    (saved.folder / "manifest.sig").write_bytes(made.stdout)


def sign_by_another_node(saved: Saved) -> None:
    keys = saved.operator.sandbox.path("node2", "/var/lib/gpuguard/keys/manifest_ed25519")
    key = saved.pristine.parent / "node2"
    key.write_bytes(keys.read_bytes())
    key.chmod(0o600)
    sign(saved, key)


def sign_by_nobody(saved: Saved) -> None:
    key = saved.pristine.parent / "stranger"
    if not key.exists():
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    sign(saved, key)


def swap_two_images(saved: Saved) -> None:
    """Give two whole images of the same checkpoint each other's names."""
    images = sorted((saved.folder / "images").glob("core-*.img"))
    other = saved.folder / "images" / "inventory.img"
    first, second = images[0].read_bytes(), other.read_bytes()
    images[0].write_bytes(second)
    other.write_bytes(first)


def replay_the_older_manifest(saved: Saved) -> None:
    """Put a manifest that was valid once, with its signature, over the newer one."""
    for name in ("manifest.json", "manifest.sig"):
        shutil.copyfile(saved.jobs / "sealed" / saved.older / name, saved.folder / name)


def replay_the_older_checkpoint(saved: Saved) -> None:
    """Let the whole older checkpoint pass for the newer one."""
    shutil.rmtree(saved.folder)
    shutil.copytree(saved.jobs / "sealed" / saved.older, saved.folder, symlinks=True)


def rename_the_replayed_manifest(saved: Saved) -> None:
    """Correct the id in the replayed manifest: its signature no longer fits."""
    replay_the_older_checkpoint(saved)
    edit_manifest(saved, lambda it: it.update(checkpoint=saved.newer))


def take_the_others_signature(saved: Saved) -> None:
    older = saved.jobs / "sealed" / saved.older / "manifest.sig"
    shutil.copyfile(older, saved.folder / "manifest.sig")


def move_another_job_here(saved: Saved) -> None:
    other = next(path for path in (saved.jobs / "other").iterdir() if path.name.startswith("20"))
    shutil.rmtree(saved.folder)
    shutil.copytree(other, saved.folder, symlinks=True)


def restores_tried(sandbox: Sandbox) -> list[str]:
    """Return CRIU's restore logs on all hosts: none is made as long as CRIU is not started."""
    find = ["find", "/var/lib/gpuguard/procedures", "-name", "restore.log"]
    return [line for host in sandbox.hosts for line in sandbox.run(host, find).stdout.split()]


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (flip_a_bit, "was changed: its hash differs"),
        (cut_short, "is cut short"),
        (take_away, "is missing"),
        (add_a_file, "extra.img is not in the manifest"),
        (swap_with_the_older, "was changed: its hash differs"),
        (edit_the_command, "does not fit the manifest"),
        (lead_outside, "outside its folder"),
        (link_an_image, "pages-"),
        (drop_the_signature, "has no signature"),
        (sign_by_another_node, "says it is of node1, but node2 signed it"),
        (sign_by_nobody, "signed by a key that is not enrolled for node1"),
        (swap_two_images, "recorded"),
        (replay_the_older_manifest, "the manifest is of checkpoint"),
        (replay_the_older_checkpoint, "the manifest is of checkpoint"),
        (rename_the_replayed_manifest, "does not fit the manifest"),
        (take_the_others_signature, "does not fit the manifest"),
        (move_another_job_here, "the manifest is of job other, not sealed"),
    ],
)
def test_refused_with_the_reason_and_the_way_out(
    saved: Saved, tamper: Callable[[Saved], None], reason: str
) -> None:
    operator = saved.operator
    tamper(saved)
    try:
        told = operator.run("restore", "sealed", "--from", saved.newer, "--yes", expect=5)
        assert reason in told.err
        assert saved.newer in told.err
        assert f"gpuguard restore sealed --from {saved.older}" in told.err
        found = operator.run("checkpoints", "verify", "sealed", saved.newer, expect=5)
        assert reason in found.out + found.err
        assert restores_tried(operator.sandbox) == []
        assert copies(operator.sandbox, "--size-mib") == []
        assert "running" not in operator.jobs("sealed").values()
    finally:
        saved.repair()


def test_the_one_before_is_taken_by_itself_and_said(saved: Saved) -> None:
    cut_short(saved)
    try:
        told = saved.operator.run("restore", "sealed", "--to", "node2", "--yes")
        assert f"warning: sealed: {saved.newer} is newer, but broken" in told.err
        assert f"from checkpoint {saved.older}" in told.out
        assert len(restores_tried(saved.operator.sandbox)) == 1
        assert read_steps(saved.operator.log("sealed")).findings == []
        saved.operator.run("jobs", "stop", "sealed")
    finally:
        saved.repair()
