"""Choosing hosts."""

from pathlib import Path

import pytest

from gpuguard.inventory.load import parse_inventory
from gpuguard.inventory.select import select_hosts
from gpuguard.model.errors import UsageError

FLEET = parse_inventory(
    "version: 1\ngroups: {train: {hosts: 'gpu[002-004]'}}\nhosts: {login: , 'gpu[001-005]': }",
    Path("/i.yaml"),
)


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        ([], [], "login gpu001 gpu002 gpu003 gpu004 gpu005"),
        (["gpu004", "login"], [], "login gpu004"),
        (["gpu[001-003]"], ["gpu002"], "gpu001 gpu003"),
        (["gpu[001:003],login"], [], "login gpu001 gpu002 gpu003"),
        (["@train"], [], "gpu002 gpu003 gpu004"),
        (["@train,!gpu003"], [], "gpu002 gpu004"),
        (["!@train"], [], "login gpu001 gpu005"),
        ([], ["@train", "login"], "gpu001 gpu005"),
        (["@all"], ["!login"], "gpu001 gpu002 gpu003 gpu004 gpu005"),
    ],
)
def test_terms_choose_hosts_in_the_order_of_the_file(
    include: list[str], exclude: list[str], names: str
) -> None:
    assert [host.name for host in select_hosts(FLEET, include, exclude)] == names.split()


@pytest.mark.parametrize(
    ("include", "exclude", "words"),
    [
        (["gpu01"], [], "gpu01: no such host in /i.yaml (did you mean gpu001?)"),
        (["train"], [], "train: no such host in /i.yaml (did you mean @train?)"),
        (["@trian"], [], "@trian: no such group (did you mean @train?)"),
        (["gpu[004-007]"], [], "gpu[006-007]: no such hosts in /i.yaml"),
        (["gpu[4-"], [], "a bracket is missing"),
        (["login", "nope", "@x"], [], "nope: no such host in /i.yaml; @x: no such group"),
        (["gpu001"], ["nope"], "nope: no such host"),
        (["gpu001"], ["gpu001"], "gpu001 !gpu001: selects no host"),
        (["@train,!gpu[001-005]"], [], "selects no host"),
    ],
)
def test_slips_are_told_with_the_nearest_name(
    include: list[str], exclude: list[str], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        select_hosts(FLEET, include, exclude)
    assert words in caught.value.message


def test_an_inventory_without_hosts_selects_nothing() -> None:
    empty = parse_inventory("version: 1", Path("/i.yaml"))
    with pytest.raises(UsageError, match="lists no host"):
        select_hosts(empty)
