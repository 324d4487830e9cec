"""What an inventory file may say, as pydantic models. Imported only where a file is read."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from gpuguard.inventory import scalars

_TEXT = WithJsonSchema({"type": ["string", "number"]})


def _mapping(value: Any) -> Any:
    # A section whose lines are all commented out reads as null.
    return {} if value is None else value


Text = Annotated[str, BeforeValidator(scalars.text), _TEXT]
FreeText = Annotated[
    str,
    BeforeValidator(scalars.free_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
Word = Annotated[str, BeforeValidator(scalars.word), _TEXT]
Address = Annotated[str, BeforeValidator(scalars.address), _TEXT]
Absolute = Annotated[
    str,
    BeforeValidator(scalars.absolute),
    WithJsonSchema({"type": "string", "pattern": "^/"}),
]
Seconds = Annotated[
    float,
    BeforeValidator(scalars.seconds),
    WithJsonSchema({"type": ["number", "string"], "examples": [30, "10m", "1h30m"]}),
]
Size = Annotated[
    int,
    BeforeValidator(scalars.size),
    WithJsonSchema({"type": ["integer", "string"], "examples": ["64MiB", "2GiB"]}),
]
Port = Annotated[
    int,
    BeforeValidator(scalars.integer),
    Field(ge=1, le=65535),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65535}),
]
Switch = Annotated[bool, BeforeValidator(scalars.switch), WithJsonSchema({"type": "boolean"})]
Words = Annotated[
    list[Text],
    BeforeValidator(scalars.word_list),
    WithJsonSchema({"type": ["array", "string"], "items": {"type": ["string", "number"]}}),
]
Command = Annotated[
    list[FreeText],
    BeforeValidator(scalars.command),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "number", "boolean"]}}),
]
Texts = Annotated[dict[str, FreeText], BeforeValidator(_mapping)]


class Section(BaseModel):
    """A mapping of the file: unknown keys are errors, and nothing is converted by guess."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PowerEntry(Section):
    """Commands that run on the operator's machine; {host} and {address} are filled in."""

    status: Command = Field(min_length=1, description="Prints on or off.")
    off: Command = Field(default_factory=list, description="Switches the host off, at once.")
    on: Command = Field(default_factory=list, description="Switches the host on.")


class Settings(Section):
    """What may be said of a host, for one, for a group or for all."""

    address: Address | None = Field(
        None, description="Name or IP address; {name} stands for the host's name."
    )
    port: Port | None = Field(None, description="SSH port; null leaves it to ssh_config.")
    user: Word | None = Field(None, description="Login; null leaves it to ssh_config.")
    identity_files: Words | None = Field(None, description="Private keys to offer.")
    proxy_jump: Word | None = Field(None, description="Jump host, as in ProxyJump.")
    transport: Literal["ssh", "local"] | None = Field(None, description="How the host is reached.")
    sudo: Switch | None = Field(None, description="Become root with sudo -n where needed.")
    connect_timeout: Seconds | None = Field(None, gt=0, le=3600, description="Seconds to connect.")
    timeout: Seconds | None = Field(
        None, gt=0, le=86400, description="Seconds a step may be silent."
    )
    host_keys: Literal["strict", "accept-new"] | None = Field(
        None, description="What to do with a host key never seen before."
    )
    known_hosts: Text | None = Field(
        None, description="Known hosts file, beside this one by default."
    )
    stage: Absolute | None = Field(
        None, description="Folder on the host for unfinished checkpoints."
    )
    policy: Word | None = Field(None, description="Policy of jobs that name none.")
    power: PowerEntry | None = Field(
        None, description="Commands that ask and switch the host's power, for fence proofs."
    )
    labels: Texts = Field(default_factory=dict, description="Words of your own, kept as text.")


class GroupEntry(Settings):
    """Some hosts, and what they have in common."""

    hosts: Words = Field(description="Hosts, ranges and @groups; !name leaves out.")


class HostEntry(Settings):
    """One host, or a range of hosts."""


class StoreEntry(Section):
    """A folder for durable checkpoints that every host sees under the same path."""

    path: Absolute


class PolicyEntry(Section):
    """How the jobs under this policy are kept."""

    store: Word | None = Field(None, description="A name under stores.")
    interval: Seconds | None = Field(None, ge=1, le=31 * 86400, description="Between heartbeats.")
    tcp: Literal["close", "refuse"] | None = Field(None, description="Open TCP connections.")
    capture_limit: Size | None = Field(None, description="Largest open file that is copied.")
    stage: Absolute | None = Field(None, description="Folder on hosts for unfinished checkpoints.")
    stop_grace: Seconds | None = Field(None, le=86400, description="Between TERM and KILL.")
    fence: Literal["proof", "lease"] | None = Field(
        None, description="lease: a job that loses its store for the lease's time ends itself."
    )
    lease: Seconds | None = Field(None, ge=3, le=86400, description="Time of the lease.")


class JobEntry(Section):
    """A job known by name."""

    host: Word | None = None
    policy: Word | None = None
    command: Annotated[list[FreeText], BeforeValidator(scalars.command)] = Field(
        default_factory=list, description="Program and arguments; no shell reads them."
    )
    cwd: Absolute | None = None
    env: Texts = Field(default_factory=dict)
    user: Word | None = Field(None, description="null: the login user of the host.")


class CordonEntry(Section):
    """A site's own commands for cordons, run here; {host} and {reason} are filled in."""

    set: Command = Field(default_factory=list, description="Keep new work off {host}.")
    lift: Command = Field(default_factory=list, description="Let new work come to {host} again.")
    status: Command = Field(
        default_factory=list, description="Exit 0: cordoned, 1: not, all else: unknown."
    )


def _entries(model: type[Section]) -> Any:
    entry = Annotated[model, BeforeValidator(_mapping)]  # type: ignore[valid-type]
    return Annotated[dict[str, entry], BeforeValidator(_mapping)]


class Document(Section):
    """A gpuguard inventory."""

    version: Annotated[Literal["1"], WithJsonSchema({"const": 1})]
    defaults: Annotated[Settings, BeforeValidator(_mapping)] = Field(
        default_factory=lambda: Settings.model_validate({})
    )
    cordon: Annotated[CordonEntry, BeforeValidator(_mapping)] = Field(
        default_factory=lambda: CordonEntry.model_validate({})
    )
    stores: _entries(StoreEntry) = Field(default_factory=dict)  # type: ignore[valid-type]
    policies: _entries(PolicyEntry) = Field(default_factory=dict)  # type: ignore[valid-type]
    groups: _entries(GroupEntry) = Field(default_factory=dict)  # type: ignore[valid-type]
    hosts: _entries(HostEntry) = Field(default_factory=dict)  # type: ignore[valid-type]
    jobs: _entries(JobEntry) = Field(default_factory=dict)  # type: ignore[valid-type]


_SECTIONS: dict[str, type[Section]] = {
    "stores": StoreEntry,
    "policies": PolicyEntry,
    "groups": GroupEntry,
    "hosts": HostEntry,
    "jobs": JobEntry,
}


def keys_at(path: tuple[str | int, ...]) -> list[str]:
    """Return the keys that the mapping at `path` may hold, for near-miss suggestions."""
    if not path:
        return list(Document.model_fields)
    if path == ("defaults",):
        return list(Settings.model_fields)
    if path == ("cordon",):
        return list(CordonEntry.model_fields)
    if path[-1] == "power" and len(path) in (2, 3):
        return list(PowerEntry.model_fields)
    section = _SECTIONS.get(str(path[0]))
    return list(section.model_fields) if section and len(path) == 2 else []


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of an inventory, for editors."""
    schema = Document.model_json_schema()
    for section in schema["properties"].values():
        entry = section.get("additionalProperties")
        if entry:
            section["type"] = ["object", "null"]
            section["additionalProperties"] = {"anyOf": [entry, {"type": "null"}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
