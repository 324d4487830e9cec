"""Preferences: where each value comes from, and every fault with its place."""

from pathlib import Path

import pytest

from gpuguard.commands import preferences
from gpuguard.commands.preferences import files_in_use, read_preferences
from gpuguard.model.errors import UsageError


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "etc" / "config.yaml"
    path.parent.mkdir()
    monkeypatch.setattr(preferences, "SYSTEM_FILE", path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "user"
    path.mkdir()
    return path


def test_without_anything_the_built_in_values_hold(folder: Path) -> None:
    values = read_preferences({}, folder)
    assert {value.origin for value in values.values()} == {"built-in"}
    assert values["fanout"].value == 32


def test_the_stronger_source_wins_and_is_named(folder: Path, system: Path) -> None:
    system.write_text("fanout: 1\ncolor: never\nprogress: never\nquiet: yes\n")
    user = folder / "config.yaml"
    user.write_text("# mine\nfanout: 2\ncolor: always\n")
    values = read_preferences({"GPUGUARD_FANOUT": "3"}, folder)
    assert (values["fanout"].value, values["fanout"].origin) == (3, "$GPUGUARD_FANOUT")
    assert (values["color"].value, values["color"].origin) == ("always", f"{user}:3")
    assert (values["progress"].value, values["progress"].origin) == ("never", f"{system}:3")
    assert values["quiet"].value is True
    assert values["output"].origin == "built-in"


def test_a_named_file_takes_the_place_of_the_users(
    folder: Path, system: Path, tmp_path: Path
) -> None:
    system.write_text("quiet: true\n")
    (folder / "config.yaml").write_text("fanout: 2\n")
    named = tmp_path / "named.yaml"
    named.write_text("output: json\n")
    for values in (
        read_preferences({}, folder, named),
        read_preferences({"GPUGUARD_CONFIG": str(named)}, folder),
    ):
        assert values["output"].value == "json"
        assert values["quiet"].value is True
        assert values["fanout"].value == 32
    assert files_in_use({}, folder, named) == [system, named]


def test_a_named_file_must_exist_and_a_usual_one_need_not(folder: Path, tmp_path: Path) -> None:
    assert files_in_use({}, folder) == []
    with pytest.raises(UsageError, match="no such file"):
        read_preferences({}, folder, tmp_path / "none")


def test_an_inventory_is_taken_from_the_folder_of_the_file(folder: Path) -> None:
    (folder / "config.yaml").write_text("inventory: fleet.yaml\n")
    assert read_preferences({}, folder)["inventory"].value == folder / "fleet.yaml"


def test_all_faults_of_a_file_are_told_at_once(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text("fanuot: 3\nfanout: 0\ncolor: alway\nquiet: [a]\noutput: json\noutput: table\n")
    with pytest.raises(UsageError) as caught:
        read_preferences({}, folder)
    assert caught.value.message.splitlines()[1:] == [
        f"{path}:1:1: fanuot: unknown key (did you mean fanout?)",
        f"{path}:2:9: fanout: 0 is not between 1 and 1024",
        f"{path}:3:8: color: expected auto, always, never, found 'alway' (did you mean always?)",
        f"{path}:4:8: quiet: expected one value, found a list",
        f"{path}:6:1: output: written twice; first on line 5",
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "color:\n"])
def test_an_empty_file_sets_nothing(folder: Path, text: str) -> None:
    (folder / "config.yaml").write_text(text)
    assert {it.origin for it in read_preferences({}, folder).values()} == {"built-in"}


def test_a_wrong_variable_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"\$GPUGUARD_COLOR: expected auto"):
        read_preferences({"GPUGUARD_COLOR": "pink"}, folder)
    with pytest.raises(UsageError, match="expected a mapping"):
        (folder / "config.yaml").write_text("- a\n")
        read_preferences({}, folder)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("0", False), ("true", True), ("no", False)]
)
def test_switches_in_variables(folder: Path, text: str, value: bool) -> None:
    assert read_preferences({"GPUGUARD_NO_INPUT": text}, folder)["no_input"].value is value
