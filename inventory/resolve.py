"""From the document to the fleet: expand ranges, layer settings, check references.

Of two values the later wins in: defaults, groups in their order, range entries in their order,
the host's own entry.
"""

from pathlib import Path
from typing import Any

from gpuguard.inventory.hosts import build_hosts, layer, range_layers
from gpuguard.inventory.membership import Members
from gpuguard.inventory.scalars import NAME, VARIABLE
from gpuguard.inventory.schema import Document
from gpuguard.inventory.tree import Tree
from gpuguard.model.inventory import CordonHook, Inventory, JobEntry, Policy, StoreSpec, nearest


def resolve(document: Document, tree: Tree, path: Path) -> Inventory:
    """Return the inventory; whatever contradicts itself is added to `tree.problems`."""
    for section in ("stores", "policies", "groups", "jobs"):
        _check_names(tree, section, getattr(document, section))
    layers = range_layers(document, tree)
    groups = Members(document.groups, layers, tree).resolve()
    hosts = build_hosts(document, layers, groups, tree, path.parent)
    _check_references(document, set(layers), tree)
    return Inventory(
        path=str(path),
        hosts=hosts,
        groups=groups,
        stores={name: StoreSpec(name, store.path) for name, store in document.stores.items()},
        policies={name: Policy(name=name, **_said(it)) for name, it in document.policies.items()},
        cordon=CordonHook(**{k: tuple(v) for k, v in _said(document.cordon).items()}),
        jobs={name: _job(name, entry, hosts) for name, entry in document.jobs.items()},
    )


def _check_names(tree: Tree, section: str, names: dict[str, Any]) -> None:
    for name in names:
        if not NAME.fullmatch(name):
            reason = "a name is letters, digits, dot, dash and underscore, at most 64"
            tree.problem((section, name), reason, at_key=True)


def _said(entry: Any) -> dict[str, Any]:
    # null means the built-in value, which the dataclass knows.
    return {name: value for name, value in layer(entry).items() if value is not None}


def _job(name: str, entry: Any, hosts: dict[str, Any]) -> JobEntry:
    said = _said(entry)
    host = hosts.get(said.get("host", ""))
    policy = said.pop("policy", host.policy if host else "default")
    command = tuple(said.pop("command", ()))
    return JobEntry(name=name, policy=policy, command=command, **said)


def _check_references(document: Document, hosts: set[str], tree: Tree) -> None:
    policies = {"default", *document.policies}
    _check(tree, ("defaults", "policy"), document.defaults.policy, policies, "policy")
    for section in ("groups", "hosts", "jobs"):
        for name, entry in getattr(document, section).items():
            _check(tree, (section, name, "policy"), entry.policy, policies, "policy")
    for name, policy in document.policies.items():
        _check(tree, ("policies", name, "store"), policy.store, set(document.stores), "store")
    for name, job in document.jobs.items():
        _check(tree, ("jobs", name, "host"), job.host, hosts, "host")
        for variable in job.env:
            if not VARIABLE.fullmatch(variable):
                path = ("jobs", name, "env", variable)
                tree.problem(path, "is no name of an environment variable", at_key=True)


def _check(
    tree: Tree, path: tuple[str, ...], wanted: str | None, known: set[str], kind: str
) -> None:
    if wanted is None or wanted in known:
        return
    close = nearest(wanted, sorted(known))
    tree.problem(path, f"no {kind} {wanted}" + (f" (did you mean {close}?)" if close else ""))
