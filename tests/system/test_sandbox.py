"""The practice fleet for real: up, down, after crashes, and a job moved by CRIU alone."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.inventory.load import load_inventory
from gpuguard.model.errors import BusyError, GpuguardError, UsageError
from gpuguard.sandbox import addresses, fleet, teardown
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.lock import locked
from gpuguard.sandbox.places import SandboxFolder, sandbox_folder
from gpuguard.sandbox.processes import namespace_inits
from gpuguard.sandbox.requirements import refusal
from gpuguard.sandbox.verification import read_steps, verify_steps
from tests.system.criu_by_hand import HandMover, Place

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]

_STEPS = [
    *("--tick", "0.02", "--size-mib", "8", "--port", "7000", "--connect", "self"),
    *("--cwd", "/srv/w", "--log", "/srv/w.log", "--plain-log", "/srv/w.plain"),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandboxes")


@pytest.fixture(scope="module")
def sandbox(state: Path) -> Iterator[Sandbox]:
    made = fleet.up("moves", hosts=3, root=state)
    yield made
    made.down()
    assert leftovers(state / "moves", made.record.subnet) == []


def leftovers(folder: Path, subnet: int | None) -> list[str]:
    """Return whatever a sandbox left on the machine."""
    left = [f"process {mark.pid}" for mark in namespace_inits(folder / "hosts")]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() + b"/" in path.read_bytes():
                left.append(f"process {path.parent.name}: {path.read_bytes()!r}")
        except (FileNotFoundError, ProcessLookupError):
            continue
    if str(folder) + "/" in Path("/proc/self/mountinfo").read_text():
        left.append("a mount")
    if folder.exists():
        left.append(f"files: {sorted(folder.rglob('*'))[:5]}")
    left += [str(path) for path in Path("/run").glob("gpuguard-sandbox-*") if _points(path, folder)]
    if subnet is not None:
        left += [p.name for p in Path("/sys/class/net").glob(f"gg{subnet}*") if _of(p, subnet)]
        routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
        left += [line for line in routes.splitlines() if f"198.18.{subnet}." in line]
    return left


def _points(path: Path, folder: Path) -> bool:
    return path.is_symlink() and path.readlink() == folder


def _of(link: Path, subnet: int) -> bool:
    return link.name == f"gg{subnet}" or link.name.startswith(f"gg{subnet}h")


def _ssh(sandbox: Sandbox, host: str, command: str, user: str = "root") -> str:
    folder = sandbox.folder
    options = ["-F", "/dev/null", "-i", str(folder.client_key), "-o", "BatchMode=yes"]
    options += ["-o", f"UserKnownHostsFile={folder.known_hosts}", "-o", "ConnectTimeout=2"]
    argv = ["ssh", *options, f"{user}@{sandbox.address(host)}", command]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_host_answers_over_ssh_with_what_is_its_own(sandbox: Sandbox) -> None:
    inventory = load_inventory(sandbox.inventory)
    assert [host.address for host in inventory.hosts.values()] == [
        sandbox.address(name) for name in sandbox.hosts
    ]
    ask = "hostname; cat /proc/sys/kernel/random/boot_id; criu check 2>/dev/null; criu --version"
    answers = [_ssh(sandbox, host, ask).splitlines() for host in sandbox.hosts]
    assert [answer[0] for answer in answers] == list(sandbox.hosts)
    assert len({answer[1] for answer in answers}) == 3
    for answer, host in zip(answers, sandbox.hosts, strict=True):
        assert answer[1] == sandbox.host(host).boot_id()
        assert answer[2] == "Looks good."
        assert answer[3].startswith("Version: 4.2")


def test_the_store_is_shared_and_everything_else_is_not(sandbox: Sandbox) -> None:
    _ssh(sandbox, "node1", "echo seen > /srv/gpuguard/note; touch /run/own /dev/shm/own /var/own")
    assert (
        _ssh(sandbox, "node2", "cat /srv/gpuguard/note; ls /run/own 2>/dev/null || true") == "seen"
    )
    assert _ssh(sandbox, "node2", "ls /dev/shm /var | grep own || true") == ""


def test_logins_without_root_may_or_may_not_use_sudo(sandbox: Sandbox) -> None:
    assert _ssh(sandbox, "node1", "sudo -n id -u", user="ops") == "0"
    assert "password" in _ssh(sandbox, "node1", "sudo -n id -u 2>&1 || true", user="guest")


def test_nothing_reaches_beyond_the_bridge(sandbox: Sandbox) -> None:
    routes = json.loads(sandbox.run("node1", ["ip", "-j", "route"]).stdout)
    assert [route["dst"] for route in routes] == [sandbox.record.network]
    forwarding = Path(f"/proc/sys/net/ipv4/conf/{sandbox.record.bridge}/forwarding").read_text()
    assert forwarding.strip() == "0"


def test_a_pulled_plug_ends_everything_but_the_disk(sandbox: Sandbox) -> None:
    host = sandbox.host("node3")
    before, first = host.boot_id(), host.init()
    sandbox.run("node3", ["sh", "-c", "echo kept > /srv/kept; sync; touch /run/gone /dev/shm/gone"])
    sandbox.start_workload("node3", ["--all", "--log", "/srv/w.log"])
    sandbox.power("node3", "off")
    assert first and not first.alive()
    assert (sandbox.state("node3"), host.boot_id()) == ("off", None)
    with pytest.raises(GpuguardError, match="the power is off"):
        sandbox.run("node3", ["true"])
    sandbox.power("node3", "on")
    assert host.boot_id() not in (None, before)
    seen = _ssh(
        sandbox,
        "node3",
        "cat /srv/kept; ls /run/gone /dev/shm/gone 2>/dev/null; pgrep -f [b]in/steps || true",
    )
    assert seen == "kept"


def test_a_cut_host_stays_cut_over_a_reboot_until_healed(sandbox: Sandbox) -> None:
    sandbox.cut("node3")
    assert sandbox.state("node3") == "cut"
    sandbox.reboot("node3")
    with pytest.raises(AssertionError, match=r"timed out|No route"):
        _ssh(sandbox, "node3", "true")
    assert sandbox.run("node3", ["hostname"]).stdout == "node3\n"
    sandbox.heal("node3")
    assert _ssh(sandbox, "node3", "hostname") == "node3"


def test_a_session_hangs_while_its_host_is_cut_and_goes_on_after(sandbox: Sandbox) -> None:
    with socket.create_connection((sandbox.address("node2"), 22), timeout=5) as session:
        assert session.recv(100).startswith(b"SSH-2.0-")
        sandbox.cut("node2")
        session.sendall(b"SSH-2.0-test\r\n")
        session.settimeout(0.5)
        with pytest.raises(TimeoutError):
            session.recv(100)
        sandbox.heal("node2")
        session.settimeout(10)
        assert session.recv(100)


def test_the_kernel_log_is_the_host_s_own(sandbox: Sandbox) -> None:
    sandbox.log_kernel("node1", "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.")
    seen = sandbox.run("node1", ["cat", "/dev/kmsg"]).stdout.splitlines()
    assert "booted" in seen[0]
    assert re.fullmatch(r"3,1,\d+,-;NVRM: Xid .* 79, GPU has fallen off the bus\.", seen[-1])
    assert "booted" in sandbox.run("node1", ["dmesg"]).stdout
    assert "Xid" not in sandbox.run("node2", ["cat", "/dev/kmsg"]).stdout


def test_a_host_that_cannot_boot_says_so_and_leaves_nothing(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for home in ("root", "home/ops", "home/guest"):
        (tmp_path / home).mkdir(parents=True)
    monkeypatch.setattr("gpuguard.sandbox.fleet.ensure_base", lambda *_: tmp_path)
    with pytest.raises(GpuguardError, match=r"node1: does not come up: .*proc"):
        fleet.up("empty", hosts=1, root=state)
    assert leftovers(state / "empty", None) == []


def test_a_job_goes_three_generations_by_hand(sandbox: Sandbox) -> None:
    mover = HandMover(sandbox, [*_STEPS, "--all"])
    place = mover.start("node1")
    _go_round(mover, place)


def test_an_adopted_job_that_leads_no_session_goes_three_generations(sandbox: Sandbox) -> None:
    # No orphan: without a subreaper it belongs to the host's pid 1, outside of the tree.
    options = [*_STEPS, "--child", "--thread", "--deleted", "--shm"]
    mover = HandMover(sandbox, options, shell_job=True)
    pid = sandbox.start_workload("node1", options, in_shell=True)
    _go_round(mover, Place("node1", None, pid))


def _go_round(mover: HandMover, place: Place) -> None:
    last = _wait_steps(mover, place, 5)
    for target in ("node2", "node3", "node1"):
        place = mover.move(place, target)
        last = _wait_steps(mover, place, last + 5)
    mover.end(place)
    report = read_steps(mover.log(place))
    assert report.findings == []
    assert report.repeated == 0
    assert report.last >= 20
    assert "connection 2 made" in report.notes
    assert verify_steps(mover.log(place, "/srv/w.plain")) == []


def _wait_steps(mover: HandMover, place: Place, wanted: int) -> int:
    for _ in range(300):
        last = read_steps(mover.log(place)).last
        if last >= wanted:
            return last
        time.sleep(0.02)
    raise AssertionError(f"no step {wanted}: {mover.log(place)[-300:]}")


def test_up_again_repairs_what_is_missing_and_keeps_the_rest(state: Path) -> None:
    made = fleet.up("again", hosts=1, root=state)
    try:
        first = made.host("node1").boot_id()
        grown = fleet.up("again", hosts=2, root=state)
        assert grown.hosts == ("node1", "node2")
        assert grown.host("node1").boot_id() == first
        grown.power("node2", "off")
        subprocess.run(["ip", "link", "del", grown.record.bridge], check=True)
        repaired = fleet.up("again", root=state)
        assert [_ssh(repaired, host, "hostname") for host in repaired.hosts] == ["node1", "node2"]
        with pytest.raises(UsageError, match="no such host"):
            repaired.power("node9", "off")
    finally:
        assert fleet.down("again", state)
    assert leftovers(state / "again", made.record.subnet) == []
    assert not fleet.down("again", state)


def test_the_last_host_can_have_the_old_criu(state: Path) -> None:
    made = fleet.up("old", hosts=2, old_criu=True, root=state)
    try:
        versions = [_ssh(made, host, "criu --version").split()[1] for host in made.hosts]
    finally:
        made.down()
    assert versions[0].startswith("4.2")
    assert versions[1] == "4.1.1"


def test_a_start_that_fails_is_taken_back(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: object, record: object) -> None:
        raise GpuguardError("no inventory today")

    monkeypatch.setattr("gpuguard.sandbox.identity.write_inventory", broken)
    seen: list[int | None] = []
    remove = teardown.remove_sandbox

    def watched(folder: SandboxFolder) -> None:
        seen.append(addresses.claimed_subnet(folder.path))
        remove(folder)

    monkeypatch.setattr("gpuguard.sandbox.teardown.remove_sandbox", watched)
    with pytest.raises(GpuguardError, match="no inventory today"):
        fleet.up("failing", hosts=1, root=state)
    assert seen[0] is not None
    assert leftovers(state / "failing", seen[0]) == []


_KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from gpuguard.sandbox import fleet
ways = {"run": subprocess.run}
calls = 0
def counted(*args, **kwargs):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        subprocess.Popen(args[0], stdin=subprocess.DEVNULL, pass_fds=kwargs.get("pass_fds", ()))
        os.kill(os.getpid(), signal.SIGKILL)
    return ways["run"](*args, **kwargs)
subprocess.run = counted
fleet.up("killed", hosts=1, root=Path(sys.argv[1]))
"""


def test_down_clears_up_after_a_kill_at_every_tool(state: Path) -> None:
    """`up` is killed as it starts its 1st, 2nd, … tool, which goes on; `down` finds it all."""
    folder = sandbox_folder("killed", state)
    for call in range(1, 40):
        argv = [sys.executable, "-c", _KILLED, str(state), str(call)]
        code = subprocess.run(argv, capture_output=True, timeout=60).returncode
        subnet = addresses.claimed_subnet(folder.path)
        fleet.down("killed", state)
        assert leftovers(folder.path, subnet) == [], f"killed at tool {call}"
        if code == 0:
            assert call > 8
            return
        assert code == -signal.SIGKILL
    raise AssertionError("up never came to its end")


def test_a_sandbox_in_use_by_a_command_is_waited_for(state: Path) -> None:
    folder = sandbox_folder("busy", state)
    folder.path.mkdir()
    with locked(folder.lock), pytest.raises(BusyError), locked(folder.lock, wait=False):
        pass
    fleet.down("busy", state)


def test_a_sandbox_that_is_gone_says_so_and_is_not_half_made_again(state: Path) -> None:
    made = fleet.up("gone", hosts=1, root=state)
    made.down()
    made.down()
    with pytest.raises(GpuguardError, match="is gone"):
        made.power("node1", "on")
    assert not made.folder.path.exists()


@pytest.fixture
def stray() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_down_ends_no_process_that_got_an_old_pid(state: Path, stray: int) -> None:
    host = sandbox_folder("stale", state).host("node1")
    host.path.mkdir(parents=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    host.init.write_text(f"{stray} 1 {boot}\n")
    fleet.down("stale", state)
    os.kill(stray, 0)
    assert not host.path.exists()
