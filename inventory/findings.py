"""What is allowed in an inventory and still worth a second look."""

from collections.abc import Iterator

from gpuguard.inventory.ranges import fold
from gpuguard.model.inventory import Inventory
from gpuguard.model.plans import Finding, Level


def find(inventory: Inventory) -> tuple[Finding, ...]:
    """Return what stands against using `inventory` as it is, the weightier first."""
    found = [
        *_empty(inventory),
        *_shared_addresses(inventory),
        *_undurable(inventory),
        *_trusting(inventory),
    ]
    weights = list(Level)
    return tuple(sorted(found, key=lambda finding: weights.index(finding.level)))


def _empty(inventory: Inventory) -> Iterator[Finding]:
    if not inventory.hosts:
        yield Finding(
            Level.WARNING, "no-hosts", inventory.path, "lists no host", "add one under hosts:"
        )
    for group, names in inventory.groups.items():
        if not names:
            yield Finding(Level.WARNING, "empty-group", group, "the group has no host")


def _shared_addresses(inventory: Inventory) -> Iterator[Finding]:
    places: dict[tuple[str, int | None, str | None], list[str]] = {}
    for host in inventory.hosts.values():
        if host.transport == "ssh":
            place = (host.address, host.port, host.proxy_jump)
            places.setdefault(place, []).append(host.name)
    for (address, port, _), names in places.items():
        if len(names) > 1:
            where = f"{address}:{port}" if port else address
            text = f"all have the address {where}: two copies of one job could run there unseen"
            remedy = "give each its own address or port, or remove the double entry"
            yield Finding(Level.WARNING, "shared-address", fold(names), text, remedy)


def _undurable(inventory: Inventory) -> Iterator[Finding]:
    used = {job.policy for job in inventory.jobs.values()}
    used |= {host.policy for host in inventory.hosts.values()}
    for name in sorted(used | inventory.policies.keys()):
        if inventory.policy(name).store is None:
            text = "no store: nothing can be saved"
            remedy = inventory.store_remedy(name)
            yield Finding(Level.ERROR, "no-store", f"policy {name}", text, remedy)


def _trusting(inventory: Inventory) -> Iterator[Finding]:
    names = [host.name for host in inventory.hosts.values() if host.host_keys == "accept-new"]
    if names:
        text = "a host key never seen before is trusted unasked"
        remedy = "host_keys: strict, and gpuguard hosts trust HOST"
        yield Finding(Level.INFO, "accept-new", fold(names), text, remedy)
