"""Which sockets of a job cannot be saved, and who is at the other end."""

from collections.abc import Iterator

from gpuguard.agent.survey.connections import open_connections
from gpuguard.agent.survey.handles import Handle, read_handles
from gpuguard.agent.survey.outsiders import belongs, lasting
from gpuguard.agent.survey.sentences import named
from gpuguard.agent.survey.survey import Check, Survey
from gpuguard.agent.survey.tree_record import read_tree
from gpuguard.agent.survey.unix_peers import DATAGRAM, UnixSocket, holders_of, unix_sockets
from gpuguard.model.plans import Finding

# Names of the kernel (/proc/net/protocols) for what CRIU saves.
_SAVED = {"TCP", "TCPv6", "UDP", "UDPv6", "UDP-Lite", "UDPLITEv6", "RAW", "RAWv6"}
_SAVED |= {"UNIX", "UNIX-STREAM", "PACKET", "NETLINK"}
_CODES = {"MPTCP": "mptcp", "MPTCPv6": "mptcp", "AF_VSOCK": "vsock"}


def _kinds(survey: Survey) -> Iterator[Finding]:
    by_kind: dict[str, set[int]] = {}
    for handle in survey.handles:
        if handle.protocol is not None:
            by_kind.setdefault(handle.protocol, set()).add(handle.pid)
    for kind, pids in sorted(by_kind.items()):
        holders = ", ".join(named(pid) for pid in sorted(pids)[:3])
        if kind == "PACKET":
            yield survey.found("packet-socket", f"{holders} has a packet socket")
        elif kind not in _SAVED:
            code = _CODES.get(kind, "socket-kind")
            yield survey.found(code, f"{holders} has a socket of the kind {kind}")


def _connections(survey: Survey) -> Iterator[Finding]:
    links = open_connections(survey.tree[0].pid, {handle.target for handle in survey.handles})
    if links and survey.job.policy.tcp == "refuse":
        yield survey.found("tcp-open", "it has open TCP connections: " + ", ".join(links))
    elif links:
        text = "TCP connections closed in the checkpoint: " + ", ".join(links)
        yield survey.found("tcp-closed", text)


def _unix(survey: Survey) -> Iterator[Finding]:
    root = survey.tree[0].pid
    known: dict[int, UnixSocket] = {}

    def look() -> dict[tuple[int, int], Handle]:
        handles = read_handles(task.pid for task in read_tree(root) if not task.zombie)
        own = {h.inode: h for h in handles if (h.protocol or "").startswith("UNIX")}
        known.update(unix_sockets() if own else {})
        peers = {inode: known[inode].peer for inode in own if inode in known}
        return {(i, peer): own[i] for i, peer in peers.items() if peer and peer not in own}

    if not any((handle.protocol or "").startswith("UNIX") for handle in survey.handles):
        return
    outside = lasting(look)
    holders = holders_of(peer for _, peer in outside)
    for (_, peer), handle in sorted(outside.items(), key=lambda item: item[0]):
        who = holders.get(peer, [])
        if not any(belongs(pid, root) for pid in who):
            yield _half(survey, handle, known, peer, who)


CHECKS: tuple[Check, ...] = (_kinds, _connections, _unix)


def _half(
    survey: Survey, handle: Handle, known: dict[int, UnixSocket], peer: int, holders: list[int]
) -> Finding:
    side = known[handle.inode]
    code = "unix-datagram-outside" if side.kind == DATAGRAM else "unix-stream-outside"
    other = known.get(peer)
    path = (other.name if other else "") or side.name
    who = ", ".join(named(pid) for pid in holders) or "a process outside of the tree"
    place = f" ({path})" if path else ""
    text = f"{named(handle.pid)} is connected to {who} by a Unix socket{place}"
    return survey.found(code, text)
