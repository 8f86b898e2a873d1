"""The public names: each is there, and none is loaded before it is used."""

import ast
import builtins
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pointstamp as ps
from pointstamp.dataflow.other_words import NAMES, VERBS


def test_every_public_name_is_there_and_listed() -> None:
    for name in dir(ps):
        assert getattr(ps, name) is not None
    assert set(ps._HOMES) | {*ps._MODULES, "__version__"} == set(dir(ps))
    assert len(dir(ps)) <= 70


def test_a_star_import_brings_every_name_that_is_not_one_of_pythons_own() -> None:
    names: dict[str, object] = {}
    exec("from pointstamp import *", names)  # noqa: S102 - a star is allowed at the top of a module only
    del names["__builtins__"]
    assert set(dir(ps)) - set(names) == set(dir(ps)) & set(dir(builtins)) == {"max", "min", "sum"}


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(
        AttributeError, match="pointstamp has no 'weather'; it has Dataflow, Expression, OutputTables"
    ):
        getattr(ps, "weather")  # noqa: B009 - it is the access that is tested


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"pointstamp has no 'Dataflows'. Did you mean 'Dataflow'\?"):
        getattr(ps, "Dataflows")  # noqa: B009 - it is the access that is tested


@pytest.mark.parametrize(
    ("name", "home"), [("upper", "functions"), ("kafka", "io"), ("Antichain", "timely"), ("Source", "ports")]
)
def test_a_name_of_a_module_is_answered_with_that_module(name: str, home: str) -> None:
    with pytest.raises(AttributeError, match=f"pointstamp has no '{name}'; here that is ps.{home}.{name}"):
        getattr(ps, name)


def test_groups_say_that_they_are_aggregated_first() -> None:
    groups = ps.Dataflow("f").table("t", "k string, v long").group_by("k")
    with pytest.raises(AttributeError, match=r"group_by\(...\) has no 'pivot'; it has agg and count"):
        groups.pivot  # type: ignore[attr-defined]  # noqa: B018 - it is the access that is tested


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("any", "ps.bool_or"),
        ("every", "ps.bool_and"),
        ("avg", "ps.mean"),
        ("Window", "table.with_columns"),
        ("window", "table.window"),
    ],
)
def test_a_name_of_another_library_is_answered_with_the_one_here(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=f"pointstamp has no '{name}'; here that is {said}"):
        getattr(ps, name)


def test_the_names_that_are_answered_with_are_there() -> None:
    for word in (*NAMES, *VERBS):
        for name in re.findall(r"ps\.(\w+)", word):
            assert name in dir(ps)
    for word in VERBS:
        for verb in re.findall(r"(?:^|or )(\w+)\(", word.partition(";")[0]):
            assert hasattr(ps.Stream, verb) or hasattr(ps.Table, verb), verb


def test_what_a_type_checker_reads_is_the_list_of_public_names() -> None:
    """Imports are all that it understands, so they stand there again."""
    tree = ast.parse(Path(ps.__file__).read_text())
    (block,) = [each for each in tree.body if isinstance(each, ast.If) and not each.orelse][:1]
    found = {
        alias.asname: (each.module or "").removeprefix("pointstamp").removeprefix(".")
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    assert found == {**ps._HOMES, **dict.fromkeys(ps._MODULES, "")}


def test_importing_pointstamp_loads_neither_arrow_nor_spark() -> None:
    heavy = ("pyarrow", "numpy", "pyspark", "zmq")
    code = f"import sys, pointstamp.cli.main; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_no_public_name_is_hidden_by_a_module_of_that_name() -> None:
    """Importing ``pointstamp.x`` sets the attribute ``x``, so a function ``x`` would be gone after it."""
    modules = {each.name for each in pkgutil.iter_modules(ps.__path__)}
    assert len(modules) > 20
    hidden = {name for name in dir(ps) if name in modules}
    assert {name for name in hidden if not isinstance(getattr(ps, name), ModuleType)} == set()
