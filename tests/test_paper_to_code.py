"""paper_to_code.md is true as far as a program can tell: what it names exists, and nothing is left out.

Families:
- references: every path and every name in backquotes exists, and nothing else stands in backquotes;
- completeness: all 90 features once, every mutant with the property that rejects it, every broken recovery
  and snapshot with what finds it, every property of every model of the catalogue in the table of that model;
- form: every table has its columns, no cell is empty, and the counts in the text are those of the table.
What none of them can find: a reference to a test that exists and tests something else.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pointstamp_models.catalogue import ENTRIES
from pointstamp_models.exploring.entry import Entry
from pointstamp_models.exploring.explorer import explore
from support import broken_recovery

ROOT: Final = Path(__file__).parent.parent
DOCUMENT: Final = (ROOT / "docs" / "explanation" / "paper_to_code.md").read_text()
FROM_THE_ROOT: Final = ("tests/", "models/", "examples/", "benchmarks/", "docs/")
FEATURES: Final = 90
STATUSES: Final = ("done", "partly", "not yet")

BROKEN_RUNTIMES: Final = "tests/simulate/test_runtime_mutants.py"
BROKEN_RECOVERIES: Final = "tests/support/broken_recovery.py"
BROKEN_SNAPSHOTS: Final = "tests/query/test_verify.py"

MUTANTS: Final = {
    **{mutant.identifier: mutant.breaks for entry in ENTRIES for mutant in entry.mutants},
    **{check.rejects: None for entry in ENTRIES for check in entry.checks if check.rejects},
}


class Table(NamedTuple):
    """One table: the headline above it, and its rows of cells."""

    section: str
    header: list[str]
    rows: list[list[str]]


def tables() -> list[Table]:
    """Every table of the document."""
    found: list[Table] = []
    section = ""
    in_table = False
    for line in DOCUMENT.splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("|"):
            in_table = False
            continue
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if not in_table:
            found.append(Table(section, cells, []))
        elif not set(line) <= set("|-"):
            found[-1].rows.append(cells)
        in_table = True
    return found


TABLES: Final = tables()
QUOTED: Final = sorted(set(re.findall(r"`([^`]+)`", DOCUMENT)))
REFERENCES: Final = [text for text in QUOTED if "/" in text or "::" in text or text.endswith(".py")]
FEATURE_ROWS: Final = [row for table in TABLES if "feature" in table.header for row in table.rows]


def in_section(start: str) -> list[Table]:
    return [table for table in TABLES if table.section.startswith(start)]


# References.


def file_of(reference: str) -> Path:
    path = reference.partition("::")[0]
    if path.startswith(FROM_THE_ROOT):
        return ROOT / path
    models = ROOT / "models" / "src"
    return models / path if path.startswith("pointstamp_models/") else ROOT / "src" / "pointstamp" / path


@cache
def names_in(path: Path) -> frozenset[str]:
    """The functions and classes of a file, methods as ``Class.method``."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")

    collect(ast.parse(path.read_text()).body, "")
    return frozenset(found)


def test_everything_in_backquotes_is_a_reference_a_mutant_or_a_command() -> None:
    commands = {f"pointstamp check models --model {entry.name}" for entry in ENTRIES}
    others = {*QUOTED} - {*REFERENCES} - {*MUTANTS} - commands - {"pointstamp check models"}
    assert not others
    assert len(REFERENCES) > 300


def test_every_path_exists() -> None:
    assert [reference for reference in REFERENCES if not file_of(reference).is_file()] == []


def test_every_name_exists_in_its_file() -> None:
    named = [reference for reference in REFERENCES if "::" in reference and file_of(reference).is_file()]
    missing = [each for each in named if each.partition("::")[2] not in names_in(file_of(each))]
    assert missing == []


# Completeness.


def test_all_features_are_there_once_in_order() -> None:
    assert [row[0] for row in FEATURE_ROWS] == [str(number) for number in range(1, FEATURES + 1)]


def test_every_feature_has_a_status_and_only_what_is_not_yet_there_has_no_place() -> None:
    for number, _, _, status, where, test in FEATURE_ROWS:
        assert status.startswith(STATUSES), f"feature {number}: {status}"
        has_place = [cell != "none" for cell in (where, test)]
        assert has_place == [not status.startswith("not yet")] * 2, f"feature {number}"
        if status.startswith("partly"):
            assert status.startswith("partly: "), f"feature {number} does not say what is missing"


def test_the_counts_in_the_text_are_those_of_the_table() -> None:
    done, partly, not_yet = (sum(row[3].startswith(status) for row in FEATURE_ROWS) for status in STATUSES)
    counted = f"Of the {FEATURES} features {done} are done, {partly} partly and {not_yet} not yet."
    assert counted in DOCUMENT


def test_every_mutant_is_listed_once_with_the_property_that_rejects_it() -> None:
    listed = {
        row[0].strip("`"): row[2] for table in TABLES if table.header[0] == "mutant" for row in table.rows
    }
    assert list(listed) == [
        name
        for entry in ENTRIES
        for name in (
            *(mutant.identifier for mutant in entry.mutants),
            *(check.rejects for check in entry.checks if check.rejects),
        )
    ]
    for name, breaks in MUTANTS.items():
        assert breaks is None or listed[name] == breaks


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_property_of_a_model_is_in_its_table(entry: Entry) -> None:
    before = DOCUMENT.partition(f"`pointstamp check models --model {entry.name}`")[0]
    section = before[before.rindex("\n### ") :].strip("#\n ")
    named = " ".join(row[0] for table in in_section(section) for row in table.rows)
    for instance in [instance for instance in entry.instances if not instance.long][:1]:
        model = instance.build()
        for name in (*model.invariants(), *model.step_properties()):
            assert re.search(rf"\b{re.escape(name)}\b", named), f"{name} is not in {section!r}"


@pytest.mark.long
def test_every_mutant_beside_a_property_breaks_it_or_another_of_its_row() -> None:
    """Not only that it is there: that it would notice."""
    mutants = {mutant.identifier: mutant for entry in ENTRIES for mutant in entry.mutants if mutant.breaks}
    idle: list[str] = []
    asked = 0
    rows = [row for table in TABLES if table.header[-1] == "test" for row in table.rows]
    named = [(name, row) for row in rows for name in re.findall(r"`([^`]+)`", row[-1]) if name in mutants]
    for name, row in named:
        mutant = mutants[name]
        model = mutant.build()
        judged = (*model.invariants(), *model.step_properties())
        properties = [each for each in judged if re.search(rf"\b{re.escape(each)}\b", row[0])]
        asked += len(properties)
        found = [explore(mutant.build(), properties=[each], limit=mutant.limit) for each in properties]
        if found and not any(exploration.violation for exploration in found):
            idle.append(f"{name} breaks none of {properties}")
    assert not idle
    assert asked > 60


def test_broken_runtimes_are_caught_by_the_property_that_is_said() -> None:
    source = (ROOT / BROKEN_RUNTIMES).read_text()
    (table,) = [table for table in TABLES if table.header[0] == "broken runtime"]
    for name, _, caught_by in table.rows:
        assert f'{name.strip("`").partition("::")[2]}: "{caught_by}"' in source


def test_every_broken_recovery_is_listed_with_the_flows_and_judges_that_show_it() -> None:
    (table,) = [table for table in TABLES if table.header[0] == "broken recovery"]
    found: dict[str, list[str]] = {}
    for mutant in broken_recovery.MUTANTS:
        name = f"`{BROKEN_RECOVERIES}::{mutant.switch.__name__}`"
        found.setdefault(name, []).append(f"{mutant.property or mutant.judge} in {mutant.flow}")
    assert {name: found_by.split(", ") for name, _, found_by in table.rows} == found


def test_every_broken_snapshot_is_listed_with_the_property_that_ends_the_query() -> None:
    source = (ROOT / BROKEN_SNAPSHOTS).read_text()
    (table,) = [table for table in TABLES if table.header[0] == "broken snapshot"]
    cases: set[tuple[str, str]] = set()
    for test in ("test_a_broken_snapshot_is_caught_by", "test_a_broken_restart_is_caught_by"):
        decorators = source.partition(f"def {test}(")[0].rpartition("@pytest.mark.parametrize")[2]
        cases |= set(re.findall(r'\((\w+), (?:.*, )?"(\w+)"\)', decorators)) - {("mutant", "caught_by")}
    assert len(cases) == len(table.rows)
    listed = {(name.strip("`").removeprefix(f"{BROKEN_SNAPSHOTS}::"), prop) for name, _, prop in table.rows}
    assert listed == cases


# Form.


def test_no_cell_is_empty_and_every_row_has_the_columns_of_its_table() -> None:
    assert len(TABLES) > 20
    for table in TABLES:
        assert table.rows
        for row in table.rows:
            assert len(row) == len(table.header), f"{table.section}: {row[0]}"
            assert all(row), f"{table.section}: {row[0]} has an empty cell"


def test_every_row_of_a_model_names_a_test_or_says_that_there_is_none() -> None:
    for table in TABLES:
        if table.header[-1] == "test":
            for row in table.rows:
                said = ("`", "no mutant", "not yet", "none", "holds by construction")
                assert row[-1].startswith(said), f"{table.section}: {row[0]}"
