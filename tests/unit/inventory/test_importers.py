"""Importing: what people have becomes an inventory that loads, and what is lost is said."""

from pathlib import Path

import pytest

from gpuguard.inventory.importers.ansible import read_ansible
from gpuguard.inventory.importers.draft import render
from gpuguard.inventory.importers.hostlist import read_hostlist
from gpuguard.inventory.importers.kinds import Kind
from gpuguard.inventory.importers.source import import_inventory
from gpuguard.inventory.importers.ssh_config import read_ssh_config
from gpuguard.model.errors import UsageError
from tests.unit.inventory.imported import loaded, make_home

ANSIBLE = """\
all:
  vars: {ansible_user: ops, ntp_server: x, ansible_host: "{{ inventory_hostname }}.lan"}
  hosts:
    login: {ansible_connection: local}
  children:
    gpu:
      vars: {ansible_port: 2222}
      children:
        train:
          hosts:
            train[01:04]:
            train02: {ansible_host: 10.0.0.2, secret: !vault x}
          vars:
            ansible_ssh_private_key_file: ~/.ssh/train
            ansible_ssh_common_args: '-o StrictHostKeyChecking=no -o ProxyJump=jump.lan'
        serve-new!:
          hosts: {"serve-[a:b]:2200": {ansible_user: "{{ who }}"}}
    empty:
"""


def test_ansible_groups_hosts_and_variables_come_over() -> None:
    fleet = loaded(render(read_ansible(ANSIBLE, "hosts.yml")))
    names = ["login", "train01", "train02", "train03", "train04", "serve-a", "serve-b"]
    assert sorted(fleet.hosts) == sorted(names)
    assert fleet.host("login").transport == "local"
    one, two = fleet.host("train01"), fleet.host("train02")
    assert (one.user, one.port, one.address) == ("ops", 2222, "train01.lan")
    assert one.identity_files == (str(Path("~/.ssh/train").expanduser()),)
    assert one.proxy_jump == "jump.lan"
    assert (two.address, two.port) == ("10.0.0.2", 2222)
    assert fleet.host("serve-a").port == 2200
    assert fleet.host("serve-a").groups == ("gpu", "serve-new_")
    assert set(fleet.groups["gpu"]) == set(names) - {"login"}
    assert "empty" not in fleet.groups


def test_what_ansible_had_and_is_lost_is_said() -> None:
    notes = read_ansible(ANSIBLE, "hosts.yml").notes
    assert "group serve-new! is called serve-new_ here" in notes
    assert "left out: templates in ansible_user" in notes
    assert "left out: variables ntp_server, secret" in notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[gpu]\nnode1\n", "INI form"),
        ("- a\n", "h.yml:1:1: expected a mapping of groups, found a list"),
        ("g: {host: {a: }}", "h.yml:1:5: g.host: Ansible knows hosts, children, vars here"),
        ("g: {hosts: [a]}", "h.yml:1:12: g.hosts: expected a mapping, found a list"),
        ("g: {hosts: {'a[3:1]': }}", "runs backwards"),
        (
            "g: {hosts: {a: {ansible_port: x}}}",
            "h.yml:1:31: g.hosts.a.ansible_port: expected a whole",
        ),
        ("g: {hosts: {a: {ansible_user: -x}}}", "starts with a dash"),
        ('g: {hosts: {a: {ansible_ssh_args: "\'"}}}', "quotation"),
        ("a: {children: {b: {children: {a: }}}, hosts: {x: }}", "groups contain each other"),
        ("g: {}", "lists no host"),
        ("", "expected a mapping of groups, found nothing"),
    ],
)
def test_other_texts_are_no_ansible_inventory(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_ansible(text, "h.yml")
    assert words in caught.value.message


def test_a_host_list_becomes_hosts() -> None:
    text = "# rack 1\nops@gpu[001:003]:2222\n\nlogin # the door\n10.0.0.9 slots=4\nopsless:22\n"
    draft = read_hostlist(text, "hosts.txt")
    fleet = loaded(render(draft))
    assert [*fleet.hosts] == ["gpu001", "gpu002", "gpu003", "login", "10.0.0.9", "opsless"]
    host = fleet.host("gpu003")
    assert (host.user, host.port, host.address) == ("ops", 2222, "gpu003")
    assert draft.notes == ["left out: words after the host name on line 5"]


def test_every_bad_line_of_a_host_list_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        read_hostlist("good\n  b@d@x\n-oX\na:99999\ngpu[1-\na\nu@a\n", "h")
    found = [(it["line"], it["column"]) for it in caught.value.details["problems"]]
    assert found == [(2, 3), (3, 1), (4, 1), (5, 1), (7, 1)]


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_host_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="lists no host"):
        read_hostlist(text, "h")


def test_names_that_yaml_would_convert_survive_the_way() -> None:
    fleet = loaded(render(read_hostlist("NO\n0100\n007@on\nnull\n", "h")))
    assert list(fleet.hosts) == ["NO", "0100", "on", "null"]
    assert fleet.host("on").user == "007"


def test_the_store_is_left_to_the_person_in_lines_that_are_right_once_taken_in() -> None:
    text = render(read_hostlist("a\n", "h"))
    assert loaded(text).policy("default").store is None
    filled = text.replace("# stores:", "stores:").replace("# policies:", "policies:")
    assert loaded(filled).store(str(loaded(filled).policy("default").store)).path


def test_a_note_cannot_break_out_of_its_comment() -> None:
    draft = read_hostlist("a\n", "odd\nhosts: {evil: }\n#")
    assert list(loaded(render(draft)).hosts) == ["a"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)


def test_hosts_of_the_own_ssh_configuration_come_by_name_alone(home: Path) -> None:
    draft = read_ssh_config(home / ".ssh" / "config", home)
    assert draft.hosts == {"inner": {}, "plain": {}, "alias": {}, "other": {}}
    assert any("two words" in note for note in draft.notes)
    assert list(loaded(render(draft)).hosts) == ["inner", "plain", "alias", "other"]


@pytest.mark.parametrize("text", ["", "Host *\n  Port 22\n", "garbage\n"])
def test_an_ssh_configuration_without_hosts_is_refused(home: Path, text: str) -> None:
    path = home / ".ssh" / "config"
    path.write_text(text)
    with pytest.raises(UsageError, match="names no host"):
        read_ssh_config(path, home)


def test_files_that_include_each_other_end(home: Path) -> None:
    path = home / ".ssh" / "config"
    path.write_text("Include config\nHost a\n")
    with pytest.raises(UsageError, match="deeper than 16"):
        read_ssh_config(path, home)


def test_import_reads_the_file_and_proves_the_result(tmp_path: Path) -> None:
    source = tmp_path / "hosts"
    source.write_text("gpu[1-3]\n")
    text = import_inventory(Kind.HOSTS, source, tmp_path, tmp_path / "new.yaml")
    assert list(loaded(text).hosts) == ["gpu1", "gpu2", "gpu3"]
    assert "gpu[1-3]" in text
    with pytest.raises(UsageError, match="no such file"):
        import_inventory(Kind.ANSIBLE, tmp_path / "none", tmp_path, tmp_path / "new.yaml")
