"""Text to numbers, switches and names."""

from collections.abc import Callable
from typing import Any

import pytest

from gpuguard.inventory import scalars


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (scalars.seconds, "90", 90.0),
        (scalars.seconds, "1.5", 1.5),
        (scalars.seconds, "10m", 600.0),
        (scalars.seconds, "1h30m", 5400.0),
        (scalars.seconds, "250ms", 0.25),
        (scalars.seconds, "1d", 86400.0),
        (scalars.size, "65536", 65536),
        (scalars.size, "64MiB", 64 * 2**20),
        (scalars.size, "64 MiB", 64 * 2**20),
        (scalars.size, "1.5GiB", 3 * 2**29),
        (scalars.size, "10GB", 10**10),
        (scalars.size, "1kB", 1000),
        (scalars.size, "0", 0),
        (scalars.integer, "22", 22),
        (scalars.integer, "0", 0),
        (scalars.switch, "true", True),
        (scalars.switch, "No", False),
        (scalars.address, "[fe80::1%eth0]", "fe80::1%eth0"),
        (scalars.address, "10.0.0.[1-3]", "10.0.0.[1-3]"),
        (scalars.address, "{name}.x", "{name}.x"),
        (scalars.free_text, "", ""),
        (scalars.word_list, "one", ["one"]),
    ],
)
def test_good_text_is_read(read: Callable[[Any], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (scalars.seconds, "10 min"),
        (scalars.seconds, "-1"),
        (scalars.seconds, "1e9"),
        (scalars.seconds, ["1"]),
        (scalars.seconds, "m"),
        (scalars.size, "64M"),
        (scalars.size, "-1"),
        (scalars.size, "lots"),
        (scalars.integer, "0100"),
        (scalars.integer, "22:22"),
        (scalars.integer, "2.0"),
        (scalars.integer, None),
        (scalars.integer, "٣"),
        (scalars.switch, "1"),
        (scalars.word, "-oProxyCommand=x"),
        (scalars.word, "a b"),
        (scalars.word, ""),
        (scalars.word, "a\nb"),
        (scalars.address, "a;b"),
        (scalars.address, "user@host"),
        (scalars.address, "{nam}"),
        (scalars.absolute, "srv"),
        (scalars.free_text, None),
        (scalars.free_text, "a\0"),
        (scalars.free_text, {}),
        (scalars.word_list, {}),
        (scalars.command, "python3 train.py"),
    ],
)
def test_bad_values_are_refused(read: Callable[[Any], Any], value: object) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read(value)


def test_a_lone_letter_is_asked_back() -> None:
    with pytest.raises(ValueError, match="64MiB"):
        scalars.size("64m")
