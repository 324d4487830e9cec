"""The inventory and config commands, end to end through the command line's own entry."""

import json
from pathlib import Path

import pytest

from gpuguard.commands.main import run
from gpuguard.commands.options import Settings, use_settings

FLEET = """\
version: 1
stores: {s: {path: /s}}
policies: {default: {store: s}}
groups: {train: {hosts: "gpu[1-2]"}}
hosts: {"gpu[1-3]": {port: 22, user: ops, labels: {rack: 01}}, here: {transport: local}}
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GPUGUARD_INVENTORY", "GPUGUARD_CONFIG", "GPUGUARD_OUTPUT", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("gpuguard.commands.preferences.SYSTEM_FILE", tmp_path / "etc")
    monkeypatch.setattr("gpuguard.inventory.locate.SYSTEM", tmp_path / "etc")
    use_settings(Settings())
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as caught:
        run([str(word) for word in words])
    return int(caught.value.code or 0)


def test_show_prints_the_chosen_hosts(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inventory", "show", "-i", fleet, "@train", "here", "-x", "gpu2") == 0
    assert capsys.readouterr().out.splitlines() == [
        "HOST  ADDRESS       USER  GROUPS  POLICY   CORDON  LABELS",
        "gpu1  gpu1:22       ops   train   default  -       rack=01",
        "here  this machine  -     -       default  -       -",
    ]


def test_show_prints_json_that_names_its_schema(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("inventory", "show", "-i", fleet, "gpu3", "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "gpuguard.inventory.hosts/1"
    [host] = shown["items"]
    assert (host["name"], host["port"], host["labels"]) == ("gpu3", 22, {"rack": "01"})


def test_an_unknown_host_is_exit_2(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inventory", "show", "-i", fleet, "gpu01") == 2
    assert "did you mean gpu1?" in capsys.readouterr().err


def test_check_counts_and_warns(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inventory", "check", fleet) == 0
    good = f"{fleet}: ok: 4 hosts, 1 group, 1 store, 1 policy, 0 jobs\n"
    assert capsys.readouterr().out == good
    fleet.write_text("version: 1\nhosts: {a: {address: x}, b: {address: x}}\n")
    assert call("inventory", "check", fleet, "-o", "json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert [it["code"] for it in shown["findings"]] == ["no-store", "shared-address"]


def test_check_tells_every_fault_on_a_line_of_its_own(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.write_text("version: 1\nhosts: {a: {prot: 1, usre: 2}}\n")
    assert call("inventory", "check", fleet) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"error: {fleet}: 2 problems",
        f"{fleet}:2:13: hosts.a.prot: unknown key (did you mean port?)",
        f"{fleet}:2:22: hosts.a.usre: unknown key (did you mean user?)",
        f"hint: correct it, then: gpuguard inventory check {fleet}",
    ]
    assert call("inventory", "check", fleet, "-o", "json") == 2
    shown = json.loads(capsys.readouterr().out)
    assert [it["column"] for it in shown["error"]["details"]["problems"]] == [13, 22]


def test_init_writes_what_check_accepts(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("inventory", "show") == 2
    assert "gpuguard inventory init" in capsys.readouterr().err
    assert call("inventory", "init") == 0
    assert (tmp_path / "xdg" / "gpuguard" / "inventory.yaml").is_file()
    assert call("inventory", "init") == 5
    assert call("inventory", "check") == 0
    assert call("inventory", "init", "--force") == 0


def test_import_writes_to_stdout_or_a_new_file(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "hosts.txt"
    source.write_text("gpu[01-03]\n")
    assert call("inventory", "import", "--from", "hosts", source) == 0
    assert "gpu[01-03]" in capsys.readouterr().out
    target = tmp_path / "new.yaml"
    assert call("inventory", "import", "--from", "hosts", source, "--output", target) == 0
    assert call("inventory", "import", "--from", "hosts", source, "--output", target) == 5
    assert call("inventory", "check", target) == 1  # it names no store yet
    assert call("inventory", "import", "--from", "ansible") == 2
    assert "which file?" in capsys.readouterr().err


def test_preferences_stand_below_the_command_line(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "xdg" / "gpuguard" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"output: jsonl\ninventory: {fleet}\ncolor: never\nfanout: 4\n")
    assert call("inventory", "show", "gpu1") == 0
    assert json.loads(capsys.readouterr().out)["name"] == "gpu1"
    assert call("inventory", "show", "gpu1", "-o", "table") == 0
    assert capsys.readouterr().out.startswith("HOST")
    assert call("inventory", "show", "nobody") == 2
    assert json.loads(capsys.readouterr().out)["code"] == 2
    assert call("inventory", "show", "nobody", "-o", "table") == 2
    assert capsys.readouterr().out == ""
    assert call("--color", "always", "config", "show", "-o", "json") == 0
    items = {it["name"]: it for it in json.loads(capsys.readouterr().out)["items"]}
    assert (items["color"]["value"], items["color"]["origin"]) == ("always", "--color")
    assert (items["fanout"]["value"], items["fanout"]["origin"]) == (4, f"{config}:4")
    assert items["inventory"]["value"] == str(fleet)


def test_config_show_names_origins_only_when_asked(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("config", "show") == 0
    assert capsys.readouterr().out.splitlines()[0] == "NAME       VALUE"
    assert call("config", "show", "--origin") == 0
    assert capsys.readouterr().out.splitlines()[0] == "NAME       VALUE  ORIGIN"


def test_config_check_tells_strange_variables(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUGUARD_FANUOT", "3")
    assert call("config", "check") == 0
    assert "warning: $GPUGUARD_FANUOT: no such preference" in capsys.readouterr().out
    assert call("--config", "/none.yaml", "config", "check") == 2


def test_config_path_says_which_files_are_read(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = tmp_path / "my.yaml"
    named.write_text("")
    assert call("--config", named, "config", "path", "-o", "json") == 0
    used = [it["path"] for it in json.loads(capsys.readouterr().out)["items"] if it["used"]]
    assert used == [str(named)]


def test_schema_prints_the_shipped_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inventory", "schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Document"
