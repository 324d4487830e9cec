"""Loading: the fleet as written, layers in their order, every fault at once with its place."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuguard.inventory import hosts
from gpuguard.inventory.load import load_inventory, parse_inventory, read_inventory
from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Inventory

PATH = Path("/etc/gpuguard/inventory.yaml")
GOOD = """\
version: 1
defaults: {user: root, connect_timeout: 5, timeout: 30, known_hosts: ./known_hosts}
stores:   {shared: {path: /srv/gpuguard}}
policies: {default: {store: shared, interval: 10m, tcp: close, capture_limit: 64MiB}}
groups:   {train: {hosts: "gpu[001-032]", user: ops, policy: default}}
hosts:
  gpu001: {address: 198.18.0.11, port: 22}
  "gpu[002-032]": {}
jobs:
  llm-7: {host: gpu001, command: [python3, 07, NO], cwd: /srv/llm, env: {A: NO, B: 0100}, user: }
"""


def load(text: str) -> Inventory:
    return parse_inventory(text, PATH)


def faults(text: str) -> list[str]:
    """Return the faults of `text` as ``line:column: key: reason``."""
    with pytest.raises(UsageError) as caught:
        load(text)
    found: list[dict[str, Any]] = caught.value.details["problems"]
    assert all(problem["reason"] in caught.value.message for problem in found)
    return [f"{it['line']}:{it['column']}: {it['key']}: {it['reason']}" for it in found]


def test_the_fleet_is_as_written() -> None:
    fleet = load(GOOD)
    assert list(fleet.hosts)[:2] == ["gpu001", "gpu002"]
    assert len(fleet.hosts) == 32
    host = fleet.host("gpu001")
    assert (host.address, host.port, host.user) == ("198.18.0.11", 22, "ops")
    assert host.known_hosts == "/etc/gpuguard/known_hosts"
    assert host.groups == ("train",)
    assert fleet.host("gpu032").address == "gpu032"
    assert fleet.host("gpu032").port is None
    assert fleet.policy("default").interval == 600.0
    assert fleet.policy("default").capture_limit == 64 * 2**20
    assert fleet.store("shared").path == "/srv/gpuguard"
    job = fleet.job("llm-7")
    assert job.command == ("python3", "07", "NO")
    assert job.env == {"A": "NO", "B": "0100"}
    assert (job.policy, job.user) == ("default", None)


def test_it_survives_the_way_through_json() -> None:
    fleet = load(GOOD)
    assert Inventory.from_dict(fleet.to_dict()) == fleet


def test_later_layers_win() -> None:
    fleet = load(
        """\
version: 1
defaults: {user: a, port: 1, timeout: 1, stage: /d, labels: {x: d, y: d}}
groups:
  g2: {hosts: "n[1-3]", user: b, port: 2, timeout: 2, labels: {y: g2}}
  g1: {hosts: [n1, n2], port: 3, timeout: 3}
hosts:
  n1: {timeout: 9, labels: {z: h}}
  "n[1-3]": {timeout: 4, user: c}
  "n[2-3]": {timeout: 5}
"""
    )
    one, two, three = fleet.hosts.values()
    assert (one.user, one.port, one.timeout) == ("c", 3, 9)
    assert (two.user, two.port, two.timeout) == ("c", 3, 5)
    assert (three.user, three.port, three.timeout) == ("c", 2, 5)
    assert one.labels == {"x": "d", "y": "g2", "z": "h"}
    assert one.groups == ("g2", "g1")
    assert one.stage == "/d"


def test_null_takes_back_what_a_layer_below_said() -> None:
    fleet = load(
        "version: 1\ndefaults: {user: ops, port: 22, timeout: 9}\n"
        "hosts: {a: {user: null, port: ~, timeout: }, b: }"
    )
    assert (fleet.host("a").user, fleet.host("a").port, fleet.host("a").timeout) == (None, None, 30)
    assert fleet.host("b").user == "ops"


def test_addresses_of_ranges() -> None:
    fleet = load(
        """\
version: 1
defaults: {address: "{name}.lan"}
hosts:
  "a[1-2]": {address: "10.0.0.[9-10]"}
  "b[1-2]": {address: "ib-{name}"}
  c:
  v6: {address: "[fd00::1]"}
"""
    )
    found = {name: host.address for name, host in fleet.hosts.items()}
    assert found == {
        "a1": "10.0.0.9",
        "a2": "10.0.0.10",
        "b1": "ib-b1",
        "b2": "ib-b2",
        "c": "c.lan",
        "v6": "fd00::1",
    }


def test_groups_hold_ranges_groups_and_exceptions() -> None:
    fleet = load(
        "version: 1\n"
        'groups: {all: {hosts: "@odd,n[2,4] !n4"}, odd: {hosts: ["n[1:5:2]"]}, none: {hosts: []}}\n'
        'hosts: {"n[1-5]": }'
    )
    assert fleet.groups == {"all": ("n1", "n2", "n3", "n5"), "odd": ("n1", "n3", "n5"), "none": ()}


def test_a_job_takes_the_policy_of_its_host() -> None:
    fleet = load(
        "version: 1\npolicies: {often: {interval: 1m}, rare: {interval: 1h}}\n"
        "hosts: {a: {policy: often}}\njobs: {j: {host: a}, k: {host: a, policy: rare}, l: }"
    )
    assert [job.policy for job in fleet.jobs.values()] == ["often", "rare", "default"]
    assert fleet.policy("default").store is None


def test_names_that_yaml_would_convert_are_names() -> None:
    fleet = load(
        "version: 1\nhosts: {NO: , 0100: {labels: {on: off, t: 22:22}}, 22: {user: 007}}\n"
        "jobs: {yes: {host: NO}}"
    )
    assert list(fleet.hosts) == ["NO", "0100", "22"]
    assert fleet.host("0100").labels == {"on": "off", "t": "22:22"}
    assert fleet.host("22").user == "007"
    assert fleet.job("yes").host == "NO"


def test_paths_are_taken_from_the_folder_of_the_file() -> None:
    fleet = load(
        "version: 1\nhosts: {a: {identity_files: [keys/id, ~/.ssh/id], known_hosts: /x/known}}"
    )
    first, second = fleet.host("a").identity_files
    assert first == "/etc/gpuguard/keys/id"
    assert second == str(Path("~/.ssh/id").expanduser())
    assert fleet.host("a").known_hosts == "/x/known"


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    found = faults(
        """\
version: 2
defaults: {user: -oX=y, conect_timeout: 5, timeout: 0, host_keys: strct}
stores: {shared: {path: srv}, shared: {path: /x}}
policies: {default: {store: sharde, interval: 10 min, tcp: 5}}
groups: {train: {hosts: "gpu[001-003],@foo", usr: ops}, t2: {}}
hosts:
  gpu001: {port: 0100, labels: {e: }}
  gpu003: {port: 99999}
  gpu004: [1]
jobs: {llm: {host: gpu01, policy: defualt, command: python3 x, env: [a]}}
"""
    )
    assert found == [
        "1:10: version: expected 1, found '2'",
        "2:18: defaults.user: '-oX=y' starts with a dash, as options do",
        "2:25: defaults.conect_timeout: unknown key (did you mean connect_timeout?)",
        "2:53: defaults.timeout: 0 is not more than 0",
        "2:67: defaults.host_keys: 'strct' is not known (did you mean strict?)",
        "3:25: stores.shared.path: 'srv' is no absolute path",
        "3:31: stores.shared: written twice; first on line 3",
        "4:29: policies.default.store: no store sharde (did you mean shared?)",
        "4:47: policies.default.interval: expected a time such as 30s, 10m or 1h30m, "
        "found '10 min'",
        "4:60: policies.default.tcp: expected close or refuse, found '5'",
        "5:25: groups.train.hosts: gpu002 not listed under hosts (did you mean gpu004?)",
        "5:25: groups.train.hosts: no group foo",
        "5:46: groups.train.usr: unknown key (did you mean user?)",
        "5:57: groups.t2.hosts: is missing",
        "7:18: hosts.gpu001.port: expected a whole number such as 22, found '0100'",
        "7:36: hosts.gpu001.labels.e: is null: write '' for empty text, or quote the word",
        "8:18: hosts.gpu003.port: 99999 is more than 65535",
        "9:11: hosts.gpu004: expected a mapping, found a list",
        "10:20: jobs.llm.host: no host gpu01 (did you mean gpu001?)",
        "10:35: jobs.llm.policy: no policy defualt (did you mean default?)",
        "10:53: jobs.llm.command: write the command as a list, as in [python3, train.py]; "
        "no shell reads it",
        "10:69: jobs.llm.env: expected a mapping, found a list",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("hosts: {a: }", "1:1: version: is missing; write version: 1"),
        ("[a]", "1:1: : expected a mapping, found a list"),
        ("word", "1:1: : expected a mapping, found 'word'"),
        ("version: 1\nhost: {}", "2:1: host: unknown key (did you mean hosts?)"),
        ("version: 1\nhosts: [a, b]", "2:8: hosts: expected a mapping, found a list"),
        ("version: 1\nhosts: {'-x': }", "2:9: hosts.-x: a host name is letters"),
        ("version: 1\nhosts: {'': }", "2:9: hosts.: a host name is empty"),
        ("version: 1\nhosts: {'a[2-1]': }", "2:9: hosts.a[2-1]: a[2-1]: the range [2-1] runs back"),
        (
            "version: 1\nhosts: {'a[1-100001]': }",
            "2:9: hosts.a[1-100001]: a[1-100001]: 100001 hosts",
        ),
        (
            "version: 1\nhosts: {'a[1-2]': {address: x}}",
            "2:29: hosts.a[1-2].address: 2 hosts share the address x",
        ),
        (
            "version: 1\nhosts: {'a[1-2]': {address: 'x[1-3]'}}",
            "2:29: hosts.a[1-2].address: 2 hosts, but x[1-3] makes 3",
        ),
        ("version: 1\ndefaults: {address: x}", "2:21: defaults.address: many hosts cannot share x"),
        ("version: 1\ndefaults: {sudo: perhaps}", "2:18: defaults.sudo: expected true or false"),
        ("version: 1\ngroups: {'a b': {hosts: []}}", "2:10: groups.a b: a name is letters"),
        ("version: 1\njobs: {../x: }", "2:8: jobs.../x: a name is letters"),
        ("version: 1\njobs: {j: {env: {A-B: x}}}", "2:18: jobs.j.env.A-B: is no name of an env"),
        ("version: 1\njobs: {j: {command: [a, [b]]}}", "2:25: jobs.j.command.1: expected text"),
        (
            "version: 1\ngroups: {a: {hosts: '@a'}}",
            "2:21: groups.a.hosts: groups contain each other",
        ),
        ("version: 1\npolicies: {p: {interval: 0}}", "2:26: policies.p.interval: 0 is less than 1"),
        ("version: 1\nhosts: {a: {port: }}\nhosts: {}", "3:1: hosts: written twice"),
    ],
)
def test_each_fault_has_its_place_and_reason(text: str, fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(text)), faults(text)


def test_one_fault_is_one_line_an_editor_can_jump_to() -> None:
    with pytest.raises(UsageError) as caught:
        load("version: 1\nhosts: {a: {adress: x}}")
    place = f"{PATH}:2:13"
    assert caught.value.message == f"{place}: hosts.a.adress: unknown key (did you mean address?)"


def test_many_faults_are_cut_in_the_message_and_whole_in_the_details() -> None:
    text = "version: 1\nhosts:\n" + "".join(f"  h{n}: {{prot: 1}}\n" for n in range(100))
    with pytest.raises(UsageError) as caught:
        load(text)
    assert "and 60 more" in caught.value.message
    assert len(caught.value.details["problems"]) == 100


def test_the_hosts_of_all_ranges_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MAX_HOSTS", 10)
    text = 'version: 1\nhosts: {"a[1-5]": , "b[1-%d]": }'
    assert len(load(text % 5).hosts) == 10
    assert "11 hosts are more than 10" in faults(text % 6)[0]


def test_missing_file_names_the_next_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_inventory(tmp_path / "none.yaml")
    assert "no such file" in caught.value.message
    assert caught.value.hint == "make one: gpuguard inventory init"


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null\n"])
def test_empty_file_is_no_inventory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "i.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="holds no inventory"):
        load_inventory(path)


def test_other_bad_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        load_inventory(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_inventory(tmp_path / ("x" * 300))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="cannot be read"):
        load_inventory(loop)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"version: 1\nhosts: {a: {labels: {x: \xe9}}}\n")
    with pytest.raises(UsageError, match=r"latin\.yaml:2:25: byte 0xe9 is not UTF-8"):
        load_inventory(latin)
    with pytest.raises(UsageError, match="larger than"):
        load_inventory(Path("/dev/zero"))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\nhosts: {a: }\n")
    assert list(load_inventory(path).hosts) == ["a"]


def test_unknown_names_get_the_nearest(tmp_path: Path) -> None:
    fleet = load(GOOD)
    with pytest.raises(UsageError) as caught:
        fleet.host("gpu01")
    assert caught.value.hint == "did you mean gpu001?"
    with pytest.raises(UsageError, match="no such job"):
        fleet.job("nothing")
    with pytest.raises(UsageError, match="no such policy"):
        fleet.policy("often")


def test_findings_warn_of_what_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text(
        "version: 1\ngroups: {g: {hosts: []}}\n"
        "hosts: {a: {address: x}, b: {address: x}, c: {address: x, port: 2}, "
        "d: {host_keys: accept-new}}"
    )
    findings = read_inventory(path).findings
    assert [(it.code, it.subject) for it in findings] == [
        ("no-store", "policy default"),
        ("empty-group", "g"),
        ("shared-address", "a,b"),
        ("accept-new", "d"),
    ]
    assert findings[0].level.value == "error"
    path.write_text(GOOD)
    assert read_inventory(path).findings == ()


def test_the_remedy_for_no_store_is_right_once_a_path_is_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text("version: 1\nhosts: {a: {}}\n")
    remedy = read_inventory(path).findings[0].remedy
    assert remedy == (
        "add stores: {shared: {path: FOLDER}} and policies: {default: {store: shared}} to "
        f"{path}"
    )
    lines = remedy.removeprefix("add ").replace("FOLDER", "/srv").split(" to ")[0].split(" and ")
    path.write_text("version: 1\nhosts: {a: {}}\n" + "\n".join(lines) + "\n")
    assert read_inventory(path).findings == ()


KEYS = st.sampled_from(
    ["version", "defaults", "hosts", "groups", "stores", "policies", "jobs", "port", "user", "path",
     "address", "labels", "env", "command", "host", "policy", "store", "interval", "a", "gpu[1-3]",
     "gpu[3-1]", "@a", "", "null", "timeout", "sudo", "identity_files"]
)  # fmt: skip
LEAVES = st.sampled_from(
    ["1", "a", "NO", "0100", "22:22", "~", "''", "'gpu[1-2]'", "'@a'", "'!a'", "10m", "64MiB",
     "/srv", "'{name}'", "'x[1-3]'", "-1", "true", "'a[b'", "é"]
)  # fmt: skip
VALUES: st.SearchStrategy[str] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(KEYS, inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"'{key}': {value}" for key, value in pairs) + "}"
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=7))
def test_any_yaml_makes_an_inventory_or_a_usage_error(pairs: list[tuple[str, str]]) -> None:
    text = "version: 1\n" + "".join(f"'{key}': {value}\n" for key, value in pairs)
    try:
        fleet = load(text)
    except UsageError as error:
        assert error.message.startswith(str(PATH))
    else:
        assert Inventory.from_dict(fleet.to_dict()) == fleet
