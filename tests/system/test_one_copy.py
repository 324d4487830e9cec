"""One job, one copy: proofs of an old copy's end, leases, stale copies, two operators at once."""

import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from gpuguard.checkpoint.naming import make_checkpoint_id
from gpuguard.inventory.load import load_inventory
from gpuguard.model.errors import RefusedError, error_from_dict
from gpuguard.remote.pool import Pool
from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal
from tests.system.kit import Operator, until
from tests.system.rivals import Job, journal, lose, race, take_over, tell

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(180),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
LEASE = 6.0
# In every mount namespace of the host: a job's own sees the store by itself.
LOSE_STORE = """
for p in /proc/[0-9]*; do echo "$(readlink "$p/ns/mnt") ${p#/proc/}"; done | sort -u -k1,1 |
while read -r ns pid; do [ -z "$pid" ] || nsenter -t "$pid" -m mount --bind /mnt /srv/gpuguard; done
"""
FIND_STORE = "umount /srv/gpuguard"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("copy", hosts=3, root=tmp_path_factory.mktemp("fleet"))
    text = made.inventory.read_text()
    leased = f"policies:\n  leased: {{store: shared, fence: lease, lease: {LEASE:g}s}}"
    made.inventory.write_text(text.replace("policies:", leased))
    yield made
    made.down()


@pytest.fixture(scope="module")
def ann(hosts: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    return Operator(hosts, tmp_path_factory.mktemp("ann"))


@pytest.fixture(scope="module")
def bob(hosts: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    return Operator(hosts, tmp_path_factory.mktemp("bob"))


# Proofs.


def test_a_host_without_power_is_proof(ann: Operator, hosts: Sandbox) -> None:
    job = Job(ann, "node2")
    hosts.power("node2", "off")
    try:
        ended = ann.run("restore", job.name, "--to", "node3", "--yes", "-o", "json")
        assert ended.json["host"] == "node3"
        assert job.one_copy() == "node3"
    finally:
        hosts.power("node2", "on")
    assert ann.jobs(job.name) == {"node2": "lost", "node3": "running"}
    job.end()


def test_a_silent_host_with_power_is_switched_off_on_demand(ann: Operator, hosts: Sandbox) -> None:
    job = Job(ann, "node2")
    hosts.cut("node2")
    try:
        refused = ann.run("restore", job.name, "--to", "node3", "--yes", expect=5)
        assert "its power is on" in refused.err
        assert "--power-off" in refused.err
        unsure = ann.run("restore", job.name, "--to", "node3", "--power-off", expect=2)
        assert "needs a yes" in unsure.err
        assert hosts.state("node2") == "cut"
        shown = ann.run("restore", job.name, "--to", "node3", "--power-off", "--dry-run")
        assert "power-off: switch node2 off" in shown.out
        ann.run("restore", job.name, "--to", "node3", "--power-off", "--yes")
        assert hosts.state("node2") == "off"
        assert job.one_copy() == "node3"
    finally:
        hosts.heal("node2")
        hosts.power("node2", "on")
    job.end()


def test_a_partition_heals_by_the_lease(ann: Operator, hosts: Sandbox) -> None:
    job = Job(ann, "node1", "--policy", "leased")
    until(lambda: (hosts.folder.store / job.name / "leases/1").exists(), what="the lease")
    hosts.cut("node1")
    try:
        # Cut off from us, not from its store: the counter moves, the job lives.
        refused = ann.run("restore", job.name, "--to", "node2", "--yes", expect=5)
        assert "renews its lease" in refused.err
        assert job.on("node1")
        hosts.run("node1", ["sh", "-c", LOSE_STORE])
        ann.run("restore", job.name, "--to", "node2", "--yes")
        assert not job.on("node1")
        assert job.where() == ["node2"]
        hosts.run("node1", ["sh", "-c", FIND_STORE])
    finally:
        hosts.heal("node1")
    assert job.one_copy() == "node2"
    assert ann.jobs(job.name) == {"node1": "lost", "node2": "running"}
    shown = ann.run("jobs", "list", "-o", "json").json["items"]
    note = next(it["note"] for it in shown if it["host"] == "node1" and it["state"] == "lost")
    assert "its lease had lapsed" in note
    # Its second life keeps a lease of its own.
    until(lambda: (hosts.folder.store / job.name / "leases/2").exists(), what="the next lease")
    job.end()


def test_a_leased_copy_ends_when_another_host_took_over(ann: Operator, hosts: Sandbox) -> None:
    job = Job(ann, "node1", "--policy", "leased")
    hosts.cut("node1")
    try:
        ann.run("restore", job.name, "--to", "node2", "--assume-dead", "node1", "--yes")
        # Nobody reaches node1, but node1 reaches the store.
        until(lambda: not job.on("node1"), LEASE, "the end of the outdated copy")
    finally:
        hosts.heal("node1")
    assert job.one_copy() == "node2"
    job.end()


# Stale copies.


def test_a_copy_held_at_the_split_is_ended_not_let_go(ann: Operator, hosts: Sandbox) -> None:
    job = Job(ann, "node1")
    procedure = job.hold("node1", 300)
    until(lambda: "waits for" in journal(hosts, "node1", procedure), 60, "the hold")
    steps = hosts.path("node1", job.log).read_text()
    hosts.cut("node1")
    try:
        ann.run("restore", job.name, "--to", "node2", "--assume-dead", "node1", "--yes")
    finally:
        hosts.heal("node1")
    tell(hosts, "node1", procedure, "discard")
    until(lambda: not job.on("node1"), 30, "the end of the held copy")
    assert hosts.path("node1", job.log).read_text() == steps
    assert "does not go on: node2 holds epoch 2" in journal(hosts, "node1", procedure)
    assert ann.jobs(job.name) == {"node1": "stale", "node2": "running"}
    assert job.one_copy() == "node2"
    job.end()


def test_a_stale_copys_checkpoint_neither_counts_nor_shadows(ann: Operator, hosts: Sandbox) -> None:
    job = Job(ann, "node1")
    inventory = load_inventory(hosts.inventory)
    with Pool(hosts.inventory.parent) as pool:
        session = pool.session(inventory.host("node1"))  # opened before the split
        kept = ann.newest(job.name)
        take_over(hosts, job.name)
        params = {"job": job.name, "checkpoint": make_checkpoint_id(), "host": "node1"}
        request: dict[str, Any] = {"id": f"late-{secrets.token_hex(3)}", "kind": "checkpoint"}
        request |= {"params": {**params, "after": "run"}, "asked_by": "t", "words": []}
        session.call("procedures.start", request=request)
        status = session.stream(
            "procedures.watch", lambda event: None, id=request["id"], after_seq=0
        )
        with pytest.raises(RefusedError, match="node2 holds epoch 2"):
            raise error_from_dict(status["error"])
    # No new contact: the procedure itself looked when it was through.
    until(lambda: not job.where(), 30, "the end of the stale copy")
    assert ann.jobs(job.name) == {"node1": "stale"}
    assert ann.newest(job.name) == kept


def test_a_lost_record_is_said_and_nothing_is_done(ann: Operator, hosts: Sandbox) -> None:
    job = Job(ann, "node1")
    hosts.cut("node1")
    try:
        ann.run("restore", job.name, "--to", "node2", "--assume-dead", "node1", "--yes")
        for path in sorted((hosts.folder.store / job.name / "epochs").iterdir()):
            path.unlink()
    finally:
        hosts.heal("node1")
    assert ann.jobs(job.name) == {"node1": "running", "node2": "running"}
    items = ann.run("jobs", "list", "-o", "json").json["items"]
    notes = [item["note"] or "" for item in items if item["spec"]["name"] == job.name]
    assert all("not known whether this is the newest copy" in note for note in notes)
    refused = ann.run("checkpoint", job.name, expect=5)
    assert f"jobs stop {job.name} --host node1" in refused.err
    for host in ("node1", "node2"):
        ann.run("jobs", "stop", job.name, "--host", host)


# Two operators.


def test_the_second_is_told_who_holds_the_job_and_since_when(
    ann: Operator, bob: Operator, hosts: Sandbox
) -> None:
    job = Job(ann, "node1")
    procedure = job.hold("node1", 300)
    for words in (("checkpoint", job.name), ("migrate", job.name, "--yes")):
        busy = bob.run(*words, expect=75)
        assert f"checkpoint {procedure} of eve@desk since 20" in busy.err
    until(lambda: "waits for" in journal(hosts, "node1", procedure), 60, "the hold")
    tell(hosts, "node1", procedure, "discard")
    until(lambda: ann.jobs(job.name) == {"node1": "running"}, what="the job to go on")
    assert job.one_copy() == "node1"
    job.end()


@pytest.mark.parametrize("turn", range(2))
def test_two_checkpoints(ann: Operator, bob: Operator, turn: int) -> None:
    job = Job(ann, "node1")
    ended = race((ann, ("checkpoint", job.name)), (bob, ("checkpoint", job.name)))
    assert 0 in {it.code for it in ended}
    assert {it.code for it in ended} <= {0, 75}, [it.err for it in ended]
    assert job.one_copy() == "node1"
    job.end()


@pytest.mark.parametrize("turn", range(2))
def test_checkpoint_against_migrate(ann: Operator, bob: Operator, turn: int) -> None:
    job = Job(ann, "node1")
    moving = ("migrate", job.name, "--to", "node2", "--yes")
    saved, moved = race((ann, ("checkpoint", job.name)), (bob, moving))
    assert 0 in (saved.code, moved.code), (saved.err, moved.err)
    # A checkpoint that comes while the job is on its way finds it nowhere: refused, not busy.
    assert saved.code in (0, 75, 5), saved.err
    assert moved.code in (0, 75), moved.err
    assert job.one_copy() == ("node2" if moved.code == 0 else "node1")
    job.end()


@pytest.mark.parametrize("turn", range(3))
def test_two_restores_of_a_lost_job(
    ann: Operator, bob: Operator, hosts: Sandbox, turn: int
) -> None:
    job = Job(ann, "node1")
    lose(hosts, job, "node1")
    ended = race(
        (ann, ("restore", job.name, "--to", "node2", "--yes")),
        (bob, ("restore", job.name, "--to", "node3", "--yes")),
    )
    codes = sorted(it.code for it in ended)
    assert codes[0] == 0, [it.err for it in ended]
    assert codes[1] in (5, 75), [it.err for it in ended]
    lost = next(it for it in ended if it.code != 0)
    # 5: it came so late that the job runs already.
    said = "since 20" if lost.code == 75 else "it is running on"
    assert said in lost.err, lost
    winner = "node2" if ended[0].code == 0 else "node3"
    assert job.one_copy() == winner
    job.end()


@pytest.mark.parametrize("turn", range(2))
def test_restore_against_migrate(ann: Operator, bob: Operator, turn: int) -> None:
    job = Job(ann, "node1")
    restored, moved = race(
        (ann, ("restore", job.name, "--to", "node3", "--yes")),
        (bob, ("migrate", job.name, "--to", "node2", "--yes")),
    )
    assert 0 in (restored.code, moved.code), (restored.err, moved.err)
    assert {restored.code, moved.code} <= {0, 1, 5, 75}, (restored.err, moved.err)
    job.one_copy()
    job.end()


def test_of_two_moves_one_goes(ann: Operator, bob: Operator) -> None:
    job = Job(ann, "node1")
    ended = race(
        (ann, ("migrate", job.name, "--to", "node2", "--yes")),
        (bob, ("migrate", job.name, "--to", "node3", "--yes")),
    )
    assert 0 in {it.code for it in ended}, [it.err for it in ended]
    assert {it.code for it in ended} <= {0, 5, 75}, [it.err for it in ended]
    job.one_copy()
    job.end()


def test_a_restore_whose_host_dies_does_not_block_the_next(
    ann: Operator, bob: Operator, hosts: Sandbox
) -> None:
    job = Job(ann, "node1")
    lose(hosts, job, "node1")
    first = subprocess.Popen(
        ann.argv("restore", job.name, "--to", "node2", "--yes"),
        env=ann.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    attempt = hosts.folder.store / job.name / "restoring/1"
    until(attempt.exists, 30, "the first attempt")
    hosts.power("node2", "off")
    first.kill()
    first.wait()
    try:
        ended = bob.try_("restore", job.name, "--to", "node3", "--yes")
        # Unless node2 had claimed it already: then its power is the proof.
        assert ended.code == 0, ended.err
        assert job.one_copy() == "node3"
    finally:
        hosts.power("node2", "on")
    assert [state for state in bob.jobs(job.name).values() if state == "running"] == ["running"]
    job.end()
