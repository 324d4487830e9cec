"""Ranges: out to names and back; nonsense and huge ranges are refused before they cost anything."""

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuguard.inventory.ranges import expand, fold, split_terms
from gpuguard.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu001", ["gpu001"]),
        ("gpu[001-003]", ["gpu001", "gpu002", "gpu003"]),
        ("gpu[9-11]", ["gpu9", "gpu10", "gpu11"]),
        ("gpu[08-11]", ["gpu08", "gpu09", "gpu10", "gpu11"]),
        ("n[1-5/2]", ["n1", "n3", "n5"]),
        ("n[1,3,7-8].rack", ["n1.rack", "n3.rack", "n7.rack", "n8.rack"]),
        ("web[01:03]", ["web01", "web02", "web03"]),
        ("web[1:5:2]", ["web1", "web3", "web5"]),
        ("db-[a:c].x", ["db-a.x", "db-b.x", "db-c.x"]),
        (
            "r[1-2]-[a-b][0-1]",
            ["r1-a0", "r1-a1", "r2-a0", "r2-a1", "r1-b0", "r1-b1", "r2-b0", "r2-b1"],
        ),
        ("b,a[2-3] c,b", ["b", "a2", "a3", "c"]),
        ("10.0.0.[9-10]", ["10.0.0.9", "10.0.0.10"]),
        ("fd00::[1-2]", ["fd00::1", "fd00::2"]),
        ("", []),
        (" , ", []),
    ],
)
def test_ranges_become_names(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu[3-1]", "backwards"),
        ("db[c:a]", "backwards"),
        ("gpu[1-3/0]", "step"),
        ("gpu[1-010]", "widths"),
        ("gpu[01-100]", "widths"),
        ("gpu[", "bracket"),
        ("gpu1]", "bracket"),
        ("gpu[[1-2]]", "bracket"),
        ("gpu[]", "no range of numbers"),
        ("gpu[1-]", "no range of numbers"),
        ("gpu[x1-x3]", "no range of numbers"),
        ("gpu!x", "no host name"),
        ("a&b", "no host name"),
        ("gpü1", "no host name"),
        ("$(reboot)", "no host name"),
    ],
)
def test_nonsense_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(text)
    assert words in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "n[1-100001]",
        "n[0-999999999999999]",
        "n[1-1000][1-1000]",
        "n[1-60000],m[1-60000]",
        "[a-z][a-z][a-z][a-z][1-100]",
    ],
)
def test_huge_ranges_are_refused_at_once(text: str) -> None:
    before = time.monotonic()
    with pytest.raises(UsageError):
        expand(text)
    assert time.monotonic() - before < 5


def test_the_limit_itself_is_allowed() -> None:
    assert len(expand("n[000001-100000]")) == 100_000


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["gpu001"], "gpu001"),
        (["gpu003", "gpu001", "gpu002"], "gpu[001-003]"),
        (["login", "gpu1", "gpu2"], "gpu[1-2],login"),
        (["x[y", "a1", "a2"], "a[1-2],x[y"),
    ],
)
def test_names_are_folded(names: list[str], text: str) -> None:
    assert fold(names) == text


NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,4}[0-9]{0,4}(-[0-9]{1,3})?", fullmatch=True)


@given(st.sets(NAMES, max_size=30))
def test_what_is_folded_comes_back(names: set[str]) -> None:
    assert set(expand(fold(names))) == names


@given(
    st.sampled_from(["", "gpu", "r1-n"]),
    st.integers(0, 999),
    st.integers(0, 60),
    st.integers(1, 7),
    st.integers(1, 5),
    st.sampled_from(["", ".cluster.example"]),
)
def test_a_range_is_what_counting_gives(
    prefix: str, first: int, length: int, step: int, width: int, suffix: str
) -> None:
    last = first + length
    low, high = f"{first:0{width}}", f"{last:0{width}}"
    if len(low) < len(high) and low.startswith("0") and low != "0":
        return
    counted = [f"{prefix}{n:0{width}}{suffix}" for n in range(first, last + 1, step)]
    assert expand(f"{prefix}[{low}-{high}/{step}]{suffix}") == counted
    assert expand(f"{prefix}[{low}:{high}:{step}]{suffix}") == counted


@given(st.text(string.printable, max_size=30))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand(text, limit=1000)
    except UsageError:
        return
    assert len(names) == len(set(names)) <= 1000


def test_terms_are_split_outside_brackets_alone() -> None:
    assert split_terms("a[1,3] b,,@c,!d") == ["a[1,3]", "b", "@c", "!d"]
