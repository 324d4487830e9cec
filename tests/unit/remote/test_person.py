"""The name of who works here."""

import os
import pwd

import pytest

from gpuguard.remote.person import login_name


def test_the_name_is_the_accounts() -> None:
    try:
        known = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pytest.skip("this user has no account")
    assert login_name() == known


def test_a_user_without_an_account_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    assert login_name() == "4000000001"
