"""Causes found in lines about sockets."""

from gpuguard.checkpoint.diagnoses.facts import first, older, show, version
from gpuguard.checkpoint.diagnoses.rules import Explain, Finding, Sight, fill, rule, told

_SOCKETS = r"sock|port|peer|listen|connect|addr"


def _option_refused(sight: Sight) -> Finding:
    new_enough = not older(sight.context.get("criu"), (4, 2)) and version(sight.context.get("criu"))
    old_kernel = older(sight.context.get("kernel"), (6, 16))
    if new_enough or old_kernel:
        return Finding(
            "socket_option_refused",
            fill(
                "{kernel} refuses a socket option that {criu} asks for ({error}). The known case, "
                "CRIU before 4.2 on kernel 6.16 or newer, does not fit here.",
                sight,
            ),
            fill("Check this pair by hand: criu check, then gpuguard doctor {HOST}.", sight),
            "medium",
        )
    return Finding(
        "criu_too_old_for_kernel",
        fill(
            "{criu} on {host} is too old for its {kernel}: CRIU before 4.2 asks for a socket "
            "option that kernel 6.16 and newer refuses, so no process there that holds a network "
            "socket can be saved. The job itself is fine and goes on.",
            sight,
        ),
        fill(
            "Install CRIU 4.2 or newer on {host} (or boot an older kernel), then: gpuguard doctor "
            "{HOST}. Until then none of the jobs with sockets on that host is protected; no "
            "option of CRIU helps.",
            sight,
        ),
    )


def _bind_refused(sight: Sight) -> Finding:
    port = first(sight.context, "port", "local_port")
    address = first(sight.context, "address", "local_address", "bind_address", "source_address")
    port_text = f"port {port}" if port else ""
    address_text = f"address {show(address)}" if address else ""
    place = " ".join(filter(None, (port_text, address_text)))
    if (sight.groups.get("error") or "").startswith("Address already"):
        return Finding(
            "port_in_use",
            fill("A socket of the image cannot be opened on {host}: ", sight)
            + (f"{place} is" if place else "its port is")
            + fill(" already in use, held by {holder}.", sight),
            fill(
                "See who holds the port (ss -ltnp on {HOST}); if it is the old copy of this job, "
                "stop that copy, else end it with its owner's consent or restore on another host: "
                "gpuguard restore {job} --to OTHER_HOST.",
                sight,
            ),
        )
    return Finding(
        "address_not_on_host",
        f"The image has a socket bound to {place or 'an IP address of the source host'}, "
        + fill("and {host} does not have that address ({error}).", sight),
        fill(
            "Restore on a host that has the IP address, move the address to {host}, or give the "
            "job its own network namespace. For the future let it listen on 0.0.0.0 and save it "
            "with its connections closed (--tcp-close). Then: gpuguard restore {job} --to HOST.",
            sight,
        ),
    )


_OPEN_CONNECTION = told(
    "tcp_connection_open",
    "{task} holds an open (established) TCP connection, and the dump was not told what to do "
    "with connections.",
    "Choose: close it in the image (--tcp-close; the running job keeps it, the restored one must "
    "reconnect), or keep it (--tcp-established; both ends must be saved and the IP address must "
    "move along). See the peers with ss -tnp, then: gpuguard checkpoint {job}.",
)

_OPTION_MISSING = told(
    "tcp_option_missing_at_restore",
    "The image was made with {option} and holds TCP connections; this restore lacks the same "
    "option.",
    "Repeat the restore with {option}, as recorded at the dump; gpuguard takes the options from "
    "the checkpoint's record: gpuguard restore {job}.",
)


def _with_option(option: str) -> Explain:
    def explain(sight: Sight) -> Finding:
        return _OPTION_MISSING(sight.having(option=option))

    return explain


_EXTERNAL_UNIX = told(
    "unix_socket_to_outside",
    "{task} has a unix socket whose other end belongs to a process outside the job{detail}.",
    "Find the peer (ss -xp) and save the tree that holds both ends, or close the connection "
    "before the checkpoint. --ext-unix-sk helps for datagram sockets (syslog) alone, not for a "
    "connected stream. Then: gpuguard checkpoint {job}.",
)


def _unix(sight: Sight) -> Finding:
    peer = sight.groups.get("peer")
    detail = f": {peer}" if peer and peer != "(null)" else ""
    return _EXTERNAL_UNIX(sight.having(detail=detail))


RULES = (
    rule(
        r"Can't get \d+:\d+ opt: (?P<error>Operation not supported|Protocol not available)",
        _option_refused,
        _SOCKETS,
    ),
    rule(
        r"In-flight connection \(\w*\) for",
        told(
            "tcp_connection_in_flight",
            "{task} has TCP connections that are not complete yet or wait to be accepted (in "
            "flight), and the dump was not told what to do with them.",
            "Take the checkpoint at a quieter moment, or drop them from the image "
            "(--skip-in-flight; their clients connect again): gpuguard checkpoint {job}.",
        ),
        _SOCKETS,
    ),
    rule(
        r"Unable to connect a socket: Network is unreachable",
        told(
            "loopback_down",
            "The loopback interface of the network namespace in which CRIU ran on {host} is down, "
            "so that CRIU cannot even find out what the kernel can do.",
            "Bring it up (ip link set lo up) in that namespace, then: gpuguard doctor {HOST}.",
        ),
        _SOCKETS + "|namespace",
    ),
    rule(r"Connected TCP socket in image", _with_option("--tcp-established"), _SOCKETS),
    rule(r"Need to set the (?:--)?tcp-close option", _with_option("--tcp-close"), _SOCKETS),
    rule(r"Connected TCP socket", _OPEN_CONNECTION, _SOCKETS),
    rule(
        r"Can't (?:bind|connect) inet socket.*?: "
        r"(?P<error>Address already in use|Cannot assign requested address)",
        _bind_refused,
        _SOCKETS + r"|holder|host|destination|fleet|ip",
    ),
    rule(
        r"Can't bind transport socket \S+: Address",
        told(
            "restore_already_running",
            "Another restore was at work on {host} at the same time, in the same network "
            "namespace and with the same pid; CRIU's own helper sockets stood in each other's way.",
            "Restore the jobs one after the other: gpuguard restore {job}.",
        ),
        _SOCKETS,
    ),
    rule(
        r"Can't dump half of stream unix connection.*?peer name: (?P<peer>[^,\s]+)",
        _unix,
        _SOCKETS + "|unix|fd",
    ),
    rule(
        r"External socket is used|Can't dump half of stream unix",
        _unix,
        _SOCKETS + "|unix|fd",
    ),
    rule(
        r"unix:.*Can't connect \S+ socket: (?P<error>.*)",
        told(
            "unix_peer_missing",
            "The restored job is to be connected to a unix socket that does not answer on {host} "
            "({error}); the service at its other end is not there.",
            "Start that service on {host} first, or restore where it runs: "
            "gpuguard restore {job} --to HOST.",
        ),
        _SOCKETS + "|unix",
    ),
    rule(
        r"Unsupported proto 262\b",
        told(
            "mptcp_socket",
            "{task} holds a multipath TCP (MPTCP, protocol 262) socket, which CRIU cannot save; "
            "programs in Go open such sockets by default.",
            "Start the job with GODEBUG=multipathtcp=0 in its environment (or MPTCP off: sysctl "
            "net.mptcp.enabled=0); nothing can be done for the running process. Then: gpuguard "
            "checkpoint {job}.",
        ),
        _SOCKETS + "|env",
    ),
    rule(
        r"Unsupported proto (?P<proto>\d+)",
        told(
            "socket_type_not_supported",
            "{task} holds a network socket of protocol {proto}, which CRIU cannot save.",
            "Start the job without that kind of socket, then: gpuguard checkpoint {job}.",
        ),
        _SOCKETS,
    ),
    rule(
        r"Unknown socket collected \(family (?P<family>\d+)\)",
        told(
            "socket_type_not_supported",
            "{task} holds a socket of address family {family} (40 is vsock), which no release of "
            "CRIU can save.",
            "Start the job without that kind of socket (the agents of virtual machines use vsock), "
            "then: gpuguard checkpoint {job}.",
        ),
        _SOCKETS,
    ),
    rule(
        r"(?i)(?:iptables|nft|network[- ]lock|ip6tables).*(?:fail|status[= ]*127|can't|error)"
        r"|exited, status=127",
        told(
            "network_lock_tool_missing",
            "CRIU could not lock the network of the job on {host}: the tool for it (iptables or "
            "nft) is missing or failed.",
            "Install nftables on {HOST} and use --network-lock nftables, or close connections "
            "(--tcp-close), which needs neither. Then: gpuguard doctor {HOST}.",
            "medium",
        ),
        r"network|iptables|nft|tool",
    ),
)
