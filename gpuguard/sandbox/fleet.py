"""The practice fleet: brought up, found again and taken down."""

from dataclasses import replace
from pathlib import Path

from gpuguard.model.errors import UsageError
from gpuguard.sandbox import addresses, identity, network, teardown
from gpuguard.sandbox.base import Say, ensure_base
from gpuguard.sandbox.handle import Sandbox
from gpuguard.sandbox.host import PracticeHost, make_disk
from gpuguard.sandbox.lock import locked
from gpuguard.sandbox.places import SandboxFolder, sandbox_folder
from gpuguard.sandbox.recipe import CriuKind, Recipe
from gpuguard.sandbox.record import HostRecord, SandboxRecord, load_record, save_record
from gpuguard.sandbox.requirements import require_machine
from gpuguard.sandbox.starting import each_host, start_hosts

__all__ = ["Sandbox", "down", "find", "up"]

_MOST_HOSTS = 200


def up(
    name: str = "default",
    hosts: int | None = None,
    old_criu: bool = False,
    say: Say = lambda text: None,
    root: Path | None = None,
) -> Sandbox:
    """Bring a sandbox up, or what is missing of it, and wait until every sshd listens.

    `hosts` of None means as many as it has, 3 for a new one; with `old_criu` the last host of a
    new sandbox carries CRIU 4.1.1. If it fails halfway, what this call started is taken back.
    Raises RefusedError where no sandbox can stand, GpuguardError with the step that failed.
    """
    if hosts is not None and not 1 <= hosts <= _MOST_HOSTS:
        raise UsageError(f"a sandbox has 1 to {_MOST_HOSTS} hosts, not {hosts}")
    require_machine()
    folder = sandbox_folder(name, root)
    bases = _bases(folder, hosts, old_criu, say)
    with locked(folder.lock, make_folder=True):
        fresh = load_record(folder.record) is None
        try:
            record = _settle_record(folder, name, bases)
            _raise_hosts(folder, record)
        except BaseException:
            if fresh:
                teardown.remove_sandbox(folder)
            raise
    return Sandbox(folder, record)


def find(name: str = "default", root: Path | None = None) -> Sandbox:
    """Return a sandbox that was brought up; raise UsageError if there is none of that name."""
    folder = sandbox_folder(name, root)
    record = load_record(folder.record)
    if record is None:
        raise UsageError(f"there is no sandbox {name}", f"gpuguard sandbox up --name {name}")
    return Sandbox(folder, record)


def down(name: str = "default", root: Path | None = None) -> bool:
    """Remove a sandbox, also half of one; say whether there was any.

    Raises GpuguardError naming what does not go.
    """
    return teardown.take_down(sandbox_folder(name, root))


def _bases(
    folder: SandboxFolder, hosts: int | None, old_criu: bool, say: Say
) -> list[tuple[CriuKind, Path]]:
    """Return kind and base of every host there is to be, building what the cache lacks."""
    record = load_record(folder.record)
    have = record.hosts if record else ()
    count = max(len(have), hosts or (len(have) or 3))
    kinds = [host.kind for host in have]
    kinds += [CriuKind.CURRENT] * (count - len(have))
    if old_criu and not have:
        kinds[-1] = CriuKind.OLD
    recipe = Recipe()
    built = {kind: ensure_base(kind, recipe, say) for kind in sorted(set(kinds))}
    return [(kind, built[kind]) for kind in kinds]


def _settle_record(
    folder: SandboxFolder, name: str, bases: list[tuple[CriuKind, Path]]
) -> SandboxRecord:
    """Write down what the sandbox is to be, its range claimed."""
    old = load_record(folder.record)
    subnet = addresses.claim_subnet(folder.path, old.subnet if old else None)
    hosts = list(old.hosts) if old else []
    for number, (kind, base) in enumerate(bases, 1):
        if number > len(hosts):
            hosts.append(HostRecord(f"node{number}", number, kind, str(base)))
        elif not Path(hosts[number - 1].base).exists():
            hosts[number - 1] = replace(hosts[number - 1], base=str(base))
    record = SandboxRecord(name, subnet, tuple(hosts))
    save_record(folder.record, record)
    return record


def _raise_hosts(folder: SandboxFolder, record: SandboxRecord) -> None:
    folder.store.mkdir(exist_ok=True, mode=0o700)
    network.ensure_bridge(record)
    public, names = identity.make_client_key(folder), identity.hosts_file(record)
    hosts = [PracticeHost(folder, record, host) for host in record.hosts]
    each_host(hosts, lambda host: make_disk(host, names, public))
    identity.write_inventory(folder, record)
    start_hosts(hosts)
