"""Run the tests of this folder over other files of cases: pytest tests/cases --OPTION FILE."""

import pytest

from tests.cases.files import KINDS, chosen_file, load


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cases", "files of cases")
    for kind in KINDS:
        text = f"run the cases of FILE in place of tests/data/{kind.copy}"
        group.addoption(kind.option, dest=kind.dest, metavar="FILE", help=text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for kind in KINDS:
        if kind.fixture not in metafunc.fixturenames:
            continue
        document = load(kind, chosen_file(kind, metafunc.config))
        cases = document[kind.key]
        shared = {key: value for key, value in document.items() if key != kind.key}
        values = [{**case, "document": shared} for case in cases]
        metafunc.parametrize(kind.fixture, values, ids=[str(case["id"]) for case in cases])
