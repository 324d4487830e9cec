"""The fleet as its owner wrote it down: hosts, groups, stores, policies and jobs."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional

from gpuguard.model.codec import Record
from gpuguard.model.errors import UsageError

_SIEVED = 2000


@dataclass(frozen=True)
class Power(Record):
    """Commands on the operator's machine; {host} and {address} stand for the host's."""

    status: tuple[str, ...]  # prints on or off
    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Host(Record):
    """One machine; None means that the inventory is silent and OpenSSH's settings decide."""

    name: str
    address: str
    port: Optional[int] = None
    user: Optional[str] = None
    identity_files: tuple[str, ...] = ()
    proxy_jump: Optional[str] = None
    groups: tuple[str, ...] = ()
    transport: str = "ssh"  # ssh | local
    sudo: bool = True  # become root with `sudo -n` where the login is not root
    connect_timeout: float = 5.0  # seconds
    timeout: float = 30.0  # seconds a step may stay silent
    host_keys: str = "strict"  # strict | accept-new
    known_hosts: Optional[str] = None  # absolute path; None: `known_hosts` beside the inventory
    stage: Optional[str] = None  # folder on the host; None: what the policy says
    policy: str = "default"  # of jobs on this host that name none
    power: Optional[Power] = None  # how to ask and switch its power from outside
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoreSpec(Record):
    """A folder for durable checkpoints that every host sees under the same path."""

    name: str
    path: str


@dataclass(frozen=True)
class Policy(Record):
    """How jobs are kept: where to, how often, and what happens to what cannot be saved."""

    name: str
    store: Optional[str] = None  # name in `stores`; None: checkpoints stay on their node
    interval: float = 600.0  # seconds between heartbeats
    tcp: str = "close"  # close | refuse
    capture_limit: int = 64 * 1024 * 1024  # bytes; larger open files are recorded, not copied
    stage: str = "/var/lib/gpuguard/stage"
    stop_grace: float = 10.0  # seconds between TERM and KILL
    fence: str = "proof"  # proof | lease: the job ends itself when it loses its store
    lease: float = 60.0  # seconds, with `fence: lease`


@dataclass(frozen=True)
class JobEntry(Record):
    """A job the inventory knows by name."""

    name: str
    host: Optional[str] = None
    policy: str = "default"
    command: tuple[str, ...] = ()
    cwd: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    user: Optional[str] = None  # None: the login user of the host


@dataclass(frozen=True)
class CordonHook(Record):
    """A site's own commands for cordons; {host} and {reason} are filled in, no shell reads them."""

    set: tuple[str, ...] = ()
    lift: tuple[str, ...] = ()
    status: tuple[str, ...] = ()  # exit 0: cordoned, 1: not, all else: unknown


@dataclass(frozen=True)
class Inventory(Record):
    """Everything one inventory file says, defaults and groups already applied."""

    path: str  # absolute path of the file; `known_hosts` and `allowed_signers` lie beside it
    hosts: dict[str, Host] = field(default_factory=dict)  # in the order of the file
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # group -> host names
    stores: dict[str, StoreSpec] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    jobs: dict[str, JobEntry] = field(default_factory=dict)
    cordon: CordonHook = field(default_factory=CordonHook)

    def host(self, name: str) -> Host:
        """Return the host `name`; raise UsageError with the nearest name if there is none."""
        if name not in self.hosts:
            raise _unknown(self, "host", name, self.hosts)
        return self.hosts[name]

    def policy(self, name: str) -> Policy:
        """Return the policy `name`; `default` always exists; raise UsageError if unknown."""
        if name in self.policies:
            return self.policies[name]
        if name == "default":
            return Policy(name="default")
        raise _unknown(self, "policy", name, self.policies)

    def store(self, name: str) -> StoreSpec:
        """Return the store `name`; raise UsageError with the nearest name if there is none."""
        if name not in self.stores:
            raise _unknown(self, "store", name, self.stores)
        return self.stores[name]

    def store_remedy(self, policy: str) -> str:
        """Return how `policy` gets a store, for a person who edits the file."""
        if self.stores:
            known = ", ".join(self.stores)
            return f"add policies: {{{policy}: {{store: …}}}} to {self.path}; stores: {known}"
        path = "stores: {shared: {path: FOLDER}}"
        return f"add {path} and policies: {{{policy}: {{store: shared}}}} to {self.path}"

    def job(self, name: str) -> JobEntry:
        """Return the job `name`; raise UsageError with the nearest name if there is none."""
        if name not in self.jobs:
            raise _unknown(self, "job", name, self.jobs)
        return self.jobs[name]


def nearest(word: str, choices: Iterable[str]) -> Optional[str]:
    """Return the choice that looks most like `word`, or None when nothing is close.

    Example: ``nearest("GPU1", ["gpu001", "gpu010"])`` is ``"gpu001"``.
    """
    names = list(choices)
    plain = _plain(word)
    for name in names:
        if _plain(name) == plain:
            return name
    # difflib needs 0.2 s for a few thousand names; a first letter in common is a fair sieve then.
    if len(names) > _SIEVED:
        names = [name for name in names if name[:2] == word[:2]][:_SIEVED]
    found = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return found[0] if found else None


def _plain(name: str) -> str:
    """Return `name` without what is most often mistyped: case, and zeros before numbers."""
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", name.lower().replace("_", "-"))


def _unknown(inventory: Inventory, kind: str, name: str, choices: Iterable[str]) -> UsageError:
    known = list(choices)
    close = nearest(name, known)
    if close:
        hint = f"did you mean {close}?"
    elif known:
        hint = f"the inventory knows {len(known)}: gpuguard inventory show"
    else:
        hint = f"add it to {inventory.path}"
    return UsageError(f"{name}: no such {kind} in {inventory.path}", hint)
