"""The files by which the other commands know a sandbox: inventory, known_hosts, client key."""

import json
import sys

from gpuguard.sandbox.host import host_key, make_key
from gpuguard.sandbox.places import SandboxFolder
from gpuguard.sandbox.record import SandboxRecord

_INVENTORY = """\
# Written by `gpuguard sandbox up`; gone with `gpuguard sandbox down`.
version: 1
defaults:
  user: root
  port: 22
  identity_files: [{key}]
  known_hosts: {known_hosts}
  host_keys: strict
  connect_timeout: 5
  timeout: 30
  power:
    status: {power} status]
    off: {power} off]
    on: {power} on]
stores:
  shared: {{path: /srv/gpuguard}}
policies:
  default: {{store: shared, interval: 10m, tcp: close, capture_limit: 64MiB}}
hosts:
"""


def make_client_key(folder: SandboxFolder) -> str:
    """Make sure the sandbox has a client key and return its public half."""
    if not folder.client_key.exists():
        make_key(folder.client_key, "gpuguard-sandbox")
    return folder.client_key.with_name(f"{folder.client_key.name}.pub").read_text()


def hosts_file(record: SandboxRecord) -> str:
    """Return what each host has as /etc/hosts."""
    lines = ["127.0.0.1 localhost"]
    lines += [f"{record.address(host)} {host.name}" for host in record.hosts]
    return "\n".join(lines) + "\n"


def _power(folder: SandboxFolder, record: SandboxRecord) -> str:
    """Return the power command up to its last word: the stand-in of a BMC."""
    program = [sys.executable, "-m", "gpuguard", "sandbox", "power"]
    where = ["--name", record.name, "--root", str(folder.path.parent)]
    return json.dumps([*program, *where, "{host}"])[:-1] + ","


def write_inventory(folder: SandboxFolder, record: SandboxRecord) -> None:
    """Write the inventory and the known_hosts file beside it, each in one go."""
    known, entries = [], []
    for host in record.hosts:
        public = host_key(folder.host(host.name)).with_name("ssh_host_ed25519_key.pub").read_text()
        known.append(f"{host.name},{record.address(host)} {' '.join(public.split()[:2])}\n")
        entries.append(f"  {host.name}: {{address: {record.address(host)}}}\n")
    head = _INVENTORY.format(
        key=f"./{folder.client_key.name}", known_hosts="./known_hosts", power=_power(folder, record)
    )
    for path, text in ((folder.known_hosts, known), (folder.inventory, [head, *entries])):
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text("".join(text))
        partial.rename(path)
