"""Layer the settings of each host and turn them into the model's Host."""

from pathlib import Path
from typing import Any

from gpuguard.inventory.ranges import MAX_HOSTS, expand, is_range
from gpuguard.inventory.scalars import HOST_NAME
from gpuguard.inventory.schema import Document
from gpuguard.inventory.tree import Tree
from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Host, Power

Layer = dict[str, Any]
_NAME = "{name}"


def layer(entry: Any) -> Layer:
    """Return what the file says in `entry`; None where it says null."""
    return {name: getattr(entry, name) for name in entry.model_fields_set if name != "hosts"}


def range_layers(document: Document, tree: Tree) -> dict[str, list[Layer]]:
    """Return each host's own layers in file order: range entries, then its own entry."""
    ranged: dict[str, list[Layer]] = {}
    own: dict[str, Layer] = {}
    for key, entry in document.hosts.items():
        try:
            names = _names(key)
        except UsageError as error:
            tree.problem(("hosts", key), _sentence(error), at_key=True)
            continue
        layers = [layer(entry)] * len(names)
        try:
            layers = _addressed(names, layer(entry))
        except UsageError as error:
            tree.problem(("hosts", key, "address"), _sentence(error))
        for name, said in zip(names, layers, strict=True):
            before = ranged.setdefault(name, [])
            if is_range(key):
                before.append(said)
            else:
                own[name] = said
    if len(ranged) > MAX_HOSTS:
        tree.problem(("hosts",), f"{len(ranged)} hosts are more than {MAX_HOSTS}", at_key=True)
    return {name: [*layers, own.get(name, {})] for name, layers in ranged.items()}


def _names(key: str) -> list[str]:
    names = expand(key)
    if not names:
        raise UsageError("a host name is empty")
    if not all(HOST_NAME.fullmatch(name) for name in names):
        raise UsageError(
            "a host name is letters, digits, dot, dash and underscore", "address: takes the rest"
        )
    return names


def _sentence(error: UsageError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _addressed(names: list[str], said: Layer) -> list[Layer]:
    """Give each host of a range its own address."""
    address = said.get("address")
    if not address or _NAME in address:
        return [said] * len(names)
    if not is_range(address):
        if len(names) > 1:
            raise UsageError(
                f"{len(names)} hosts share the address {address}",
                "write a range of addresses, or {name} in its place",
            )
        return [said]
    addresses = expand(address)
    if len(addresses) != len(names):
        raise UsageError(f"{len(names)} hosts, but {address} makes {len(addresses)} addresses")
    return [{**said, "address": each} for each in addresses]


def build_hosts(
    document: Document,
    layers: dict[str, list[Layer]],
    groups: dict[str, tuple[str, ...]],
    tree: Tree,
    folder: Path,
) -> dict[str, Host]:
    """Return every host with its settings layered; paths are taken from `folder`."""
    _check_common(document, tree)
    member: dict[str, list[str]] = {name: [] for name in layers}
    for group, names in groups.items():
        for name in names:
            member[name].append(group)
    base = layer(document.defaults)
    shared = {name: layer(entry) for name, entry in document.groups.items()}
    return {
        name: _host(name, [base, *(shared[g] for g in member[name]), *own], member[name], folder)
        for name, own in layers.items()
    }


def _check_common(document: Document, tree: Tree) -> None:
    common: list[tuple[tuple[str, ...], str | None]] = [(("defaults",), document.defaults.address)]
    common += [(("groups", name), entry.address) for name, entry in document.groups.items()]
    for path, address in common:
        if address and (_NAME not in address or is_range(address)):
            reason = f"many hosts cannot share {address}; write {_NAME} for the host's name"
            tree.problem((*path, "address"), reason)


def _host(name: str, layers: list[Layer], groups: list[str], folder: Path) -> Host:
    said: Layer = {}
    labels: dict[str, str] = {}
    for part in layers:
        said.update(part)
        labels.update(part.get("labels") or {})
    said = {key: value for key, value in said.items() if value is not None}
    said["labels"] = labels
    if "power" in said:
        power = said["power"]
        said["power"] = Power(tuple(power.status), tuple(power.off), tuple(power.on))
    said["address"] = said.get("address", name).replace(_NAME, name)
    keys = said.pop("identity_files", ())
    said["identity_files"] = tuple(_beside(folder, key) for key in keys)
    if "known_hosts" in said:
        said["known_hosts"] = _beside(folder, said["known_hosts"])
    return Host(name=name, groups=tuple(groups), **said)


def _beside(folder: Path, text: str) -> str:
    if text == "~" or text.startswith("~/"):
        return str(Path(text).expanduser())
    return str(folder / text)
