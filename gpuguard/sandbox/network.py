"""The bridge of a sandbox and the cables of its hosts; no packet leaves the machine."""

import json
from pathlib import Path

from gpuguard.sandbox.record import HostRecord, SandboxRecord
from gpuguard.sandbox.tools import run_tool


def ensure_bridge(record: SandboxRecord) -> None:
    """Bring the sandbox's bridge up, safe to repeat."""
    bridge = record.bridge
    # First of all: if the bridge goes, packets to the hosts must not take the default route.
    if not _routes(record):
        _ip(f"route add unreachable {record.network} metric 10000")
    if not _exists(bridge):
        # Hardware addresses that stay: a new one would be a stranger to its neighbours for a while.
        _ip(f"link add {bridge} address {record.mac(0)} type bridge")
    _forbid(Path(f"/proc/sys/net/ipv4/conf/{bridge}/forwarding"), "0")
    _forbid(Path(f"/proc/sys/net/ipv6/conf/{bridge}/disable_ipv6"), "1")
    if record.gateway not in _addresses(bridge):
        _ip(f"address add {record.gateway}/24 dev {bridge}")
    _ip(f"link set {bridge} up")


def remove_network(subnet: int) -> None:
    """Remove every link and route of a sandbox, safe to repeat; `subnet` is the x of its range."""
    record = SandboxRecord("", subnet, ())
    for link in _links():
        number = link.removeprefix(f"{record.bridge}h")
        if link != number and number.isdigit():
            remove_link(link)
    remove_link(record.bridge)
    if _routes(record):
        _ip(f"route del unreachable {record.network} metric 10000")


def connect_host(record: SandboxRecord, host: HostRecord, init: int, cut: bool) -> None:
    """Plug the host whose pid 1 is `init` into the bridge, unless it already is.

    With `cut` its link stays down.
    """
    link = record.link(host)
    state = "down" if cut else "up"
    if not _exists(link):
        # In one go: either both ends exist, the far one in the host, or none.
        far = f"name eth0 address {record.mac(host.number)} netns {init}"
        _ip(f"link add {link} type veth peer {far}")
    _ip(f"link set {link} master {record.bridge} {state}")


def set_link(record: SandboxRecord, host: HostRecord, up: bool) -> None:
    """Bring the host's link up or down; sessions through it hang while it is down."""
    if not _exists(record.link(host)):
        return
    _ip(f"link set {record.link(host)} {'up' if up else 'down'}")
    if up:
        # The machine may just be giving the host up; then the next packet would still fail.
        _ip(f"neighbour flush to {record.address(host)} dev {record.bridge}")


def remove_link(name: str) -> None:
    """Remove a link if it exists; a cable also goes by itself soon after its host."""
    # Not by looking first: the kernel may remove it in between.
    run_tool(["sh", "-c", 'ip link del "$0" 2>/dev/null || ! [ -e "/sys/class/net/$0" ]', name])


def _exists(link: str) -> bool:
    return Path("/sys/class/net", link).exists()


def _links() -> list[str]:
    return [path.name for path in Path("/sys/class/net").iterdir()]


def _addresses(link: str) -> list[str]:
    shown = json.loads(run_tool(["ip", "-4", "-j", "address", "show", "dev", link]))
    return [info["local"] for entry in shown for info in entry.get("addr_info", ())]


def _routes(record: SandboxRecord) -> bool:
    shown = run_tool(["ip", "-4", "route", "show", "type", "unreachable", record.network])
    return bool(shown.strip())


def _forbid(setting: Path, value: str) -> None:
    if setting.exists():
        setting.write_text(value)


def _ip(words: str) -> None:
    run_tool(["ip", *words.split()])
