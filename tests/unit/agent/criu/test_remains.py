"""Rules and helper files of a CRIU that died are found by their exact marks, and nothing else."""

from pathlib import Path

import pytest

from gpuguard.agent.criu import remains as criu_remains

TABLES = "table inet filter\ntable inet CRIU-4711\ntable ip nat\ntable inet MY-CRIU-1\n"
SAVED = """\
*nat
:PREROUTING ACCEPT [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
-A INPUT -s 10.0.0.1/32 -p tcp -m mark ! --mark 0xc114 -j DROP
-A INPUT -p tcp --dport 22 -j ACCEPT
COMMIT
"""


def test_tables_are_known_by_their_whole_name() -> None:
    assert criu_remains.parse_tables(TABLES) == [("inet", "CRIU-4711")]


def test_rules_are_deleted_by_their_own_words() -> None:
    words = "-t filter -D INPUT -s 10.0.0.1/32 -p tcp -m mark ! --mark 0xc114 -j DROP"
    assert criu_remains.parse_rules(SAVED) == [tuple(words.split())]


def fake(listed: dict[str, str], ran: list[tuple[str, ...]]) -> criu_remains.Run:
    def run(*argv: str) -> str | None:
        ran.append(argv)
        return listed.get(" ".join(argv), "" if "delete" in argv or "-D" in argv else None)

    return run


def test_remains_are_removed_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criu_remains, "criu_at_work", lambda: False)
    ran: list[tuple[str, ...]] = []
    told = criu_remains.lift_rules(fake({"nft list tables": TABLES, "iptables-save": SAVED}, ran))
    assert ("nft", "delete", "table", "inet", "CRIU-4711") in ran
    assert len([argv for argv in ran if "-D" in argv]) == 1
    assert len(told) == 2
    assert all("dead CRIU" in line for line in told)


def test_rules_of_a_criu_at_work_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criu_remains, "criu_at_work", lambda: True)
    ran: list[tuple[str, ...]] = []
    assert criu_remains.lift_rules(fake({"nft list tables": TABLES}, ran)) == []
    assert not any("delete" in argv for argv in ran)


def test_a_host_without_the_tools_has_nothing_to_lift() -> None:
    assert criu_remains.lift_rules(lambda *argv: None) == []


def test_ghosts_beside_their_file_go_and_link_remaps_of_others_stay(tmp_path: Path) -> None:
    ghost = tmp_path / "data[1].cr.a.ghost"
    others = [tmp_path / "other.cr.1.ghost", tmp_path / "link_remap.3", tmp_path / "data[1].cr.txt"]
    for path in (ghost, *others):
        path.write_text("")
    told = criu_remains.remove_ghosts([str(tmp_path / "data[1]")])
    assert told == [f"removed {ghost}, which a dead CRIU had left"]
    assert [path.exists() for path in others] == [True, True, True]
    assert not ghost.exists()
