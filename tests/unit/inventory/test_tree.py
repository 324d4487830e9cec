"""The tree: text stays text, every part has a place, bad form is told with its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuguard.inventory.tree import parse
from gpuguard.model.errors import UsageError


@pytest.mark.parametrize(
    "word", ["NO", "yes", "0100", "22:22", "1:30", "2020-01-01", "1e3", "0x1F", ".inf", "=", "off"]
)
def test_words_that_yaml_would_convert_stay_as_typed(word: str) -> None:
    assert parse(f"{word}: {word}", "f").data == {word: word}


@pytest.mark.parametrize(
    ("text", "value"), [("~", None), ("null", None), ("", None), ("'null'", "null"), ("''", "")]
)
def test_only_an_unquoted_null_is_nothing(text: str, value: str | None) -> None:
    assert parse(f"a: {text}", "f").data == {"a": value}


def test_null_is_a_fine_key() -> None:
    assert parse("null: 1", "f").data == {"null": "1"}


def test_every_part_has_its_line_and_column() -> None:
    tree = parse("a:\n  b: [x, yy]\n", "f")
    assert tree.keys[("a", "b")] == (2, 3)
    assert tree.values[("a", "b", 1)] == (2, 10)


def test_duplicate_keys_are_told_with_the_first_place() -> None:
    tree = parse("a: 1\nb: 2\na: 3\n", "f")
    [problem] = tree.problems
    assert (problem.line, problem.column, problem.key) == (3, 1, "a")
    assert "first on line 1" in problem.reason


def test_merge_keys_fill_in_and_do_not_override() -> None:
    tree = parse("x: &x {a: 1, b: 2}\ny: &y {c: 3}\nz: {<<: [*x, *y], a: 9}\n", "f")
    assert tree.data["z"] == {"a": "9", "b": "2", "c": "3"}
    assert tree.problems == []
    assert tree.keys[("z", "a")] == (3, 19)
    assert tree.keys[("z", "b")] == (1, 14)


def test_merging_something_else_than_a_mapping_is_told() -> None:
    [problem] = parse("a: {<<: word}", "f").problems
    assert "takes a mapping" in problem.reason


@pytest.mark.parametrize(
    "text", ["a: !vault x", "a: !!python/object:os.system x", "a: !!binary eA=="]
)
def test_tags_are_refused(text: str) -> None:
    [problem] = parse(text, "f").problems
    assert "tag" in problem.reason


def test_foreign_tags_can_be_let_pass() -> None:
    tree = parse("a: !vault x", "f", foreign_tags=True)
    assert (tree.data, tree.problems) == ({"a": None}, [])


def lines(count: int) -> str:
    rows = ["a0: &a0 [x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, count)]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: &x [*x]", "f:1:4", "contains itself"),
        ("a: &x {<<: *x}", "f:1:4", "contains itself"),
        pytest.param(lines(12), "f:", "aliases repeat more than", id="many aliases"),
        ("[" * 40 + "]" * 40, "f:1:34", "nested deeper"),
        ("[" * 5000, "f:1:", "nesting"),
        ("a: *nobody", "f:1:4", "undefined alias"),
        ("a: b\n\tc: d", "f:2:1", "a tab stands"),
        ("a: [gpu[01-04]]", "f:1:8", "did not find expected"),
        ("a: 1\n---\nb: 2", "f:2:1", "another document"),
        ("é: \x07", "f:1:4", "control characters"),
        ("ab: 1\né: \x00", "f:2:4", "control characters"),
    ],
)
def test_broken_form_is_told_with_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "f")
    assert place in caught.value.message
    assert words in caught.value.message


def test_unquoted_range_gets_the_advice_to_quote_it() -> None:
    with pytest.raises(UsageError) as caught:
        parse("hosts: [gpu[01-04]]", "f")
    assert caught.value.hint == 'quote host ranges: "gpu[001-032]"'


def test_a_list_as_key_is_told() -> None:
    tree = parse("[gpu01]: x", "f")
    assert tree.data == {}
    assert "quote it" in tree.problems[0].reason


YAML_BITS = st.sampled_from(
    [
        *"{}[]:,-?!&*#|>'\"%@` \n\t~a0<",
        "a: ",
        "- ",
        "&x ",
        "*x",
        "<<: ",
        "!!",
        "\n  ",
        "é",
        "\ufeff",
    ]
)


@given(st.lists(YAML_BITS, max_size=40).map("".join))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        parse(text, "f")
    except UsageError as error:
        assert error.message.startswith("f:")


@given(st.text(max_size=60))
def test_any_characters_are_read_or_refused_in_words(text: str) -> None:
    try:
        parse(text, "f")
    except UsageError as error:
        assert error.message.startswith("f:")
