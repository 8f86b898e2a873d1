"""The layout is what the documents say it is.

Families:
- docs/explanation/architecture.md and CONTRIBUTING.md have the packages of pyproject.toml's layers, in that
  order;
- the docstring of each package says who calls whom in it, with names of its own modules;
- each folder of tests has the name of the package that it tests;
- the contracts of imports are about all packages of the layers, and imports for types count in them.
"""

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "pointstamp"
CONTRACTS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS: Final = [layer.split(" | ") for layer in CONTRACTS[0]["layers"]]
PACKAGES: Final = sorted(each.parent for each in SOURCE.rglob("__init__.py") if each.parent != SOURCE)
PLAIN: Final = ("redaction", "errors", "version", "compiled")
"""What has no idea of a flow, and may be known to everybody."""
OTHER_TESTS: Final = {
    "support": "generators, oracles and flows that several tests share",
    "torture": "a long run that is disturbed from outside",
}


def test_the_table_of_the_architecture_has_every_package_from_the_lowest_layer_up() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    table = page.partition("## Layers\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    named = [set(re.findall(r"`([\w-]+)`", row)) for row in rows if row.startswith("`")]
    flat = [package for row in named for package in sorted(row)]
    layers = [package for layer in reversed(LAYERS) for package in sorted(layer)]
    height = {package: number for number, layer in enumerate(reversed(LAYERS)) for package in layer}
    assert sorted(flat) == sorted([*layers, "graphs", "pointstamp-models"])
    heights = [height[package] for package in flat if package in height]
    assert heights == sorted(heights)


def test_the_layers_of_contributing_are_those_of_the_contract() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    block = next(part for part in page.split("\n\n") if part.startswith("    redaction"))
    assert [set(re.findall(r"\w+", layer)) for layer in block.split("<")] == [
        set(layer) for layer in reversed(LAYERS)
    ]


def test_the_docstring_of_each_package_says_who_calls_whom_in_it() -> None:
    for package in PACKAGES:
        text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
        first, _, rest = text.partition("\n\n")
        assert len(first.splitlines()) == 1, package.name
        assert len(rest.splitlines()) >= 2, f"{package.name} does not say who calls whom"
        modules = {each.stem for each in package.iterdir() if not each.name.startswith("_")}
        named = set(re.findall(r"``(\w+)``", rest))
        assert named <= modules, f"{package.name} has no {', '.join(named - modules)}"
        assert len(named) >= min(2, len(modules)), package.name


def test_each_folder_of_tests_has_the_name_of_what_it_tests() -> None:
    packages = {each.name for each in SOURCE.iterdir() if each.is_dir()}
    folders = {each.name for each in (ROOT / "tests").iterdir() if each.is_dir()} - {"__pycache__"}
    assert folders - packages == set(OTHER_TESTS)
    models = ROOT / "models"
    parts = {each.name for each in (models / "src" / "pointstamp_models").iterdir()}
    assert {each.name for each in (models / "tests").iterdir() if each.is_dir()} - {"__pycache__"} <= parts


def test_the_lists_of_the_contracts_are_made_of_the_layers() -> None:
    packages = [package for layer in reversed(LAYERS) for package in layer]
    below = packages[: packages.index("dataflow")]
    lists = {
        "The rules of the judge know": ("forbidden_modules", {*packages, "graphs"} - {*PLAIN, "verify"}),
        "Only pointstamp.spark imports": ("source_modules", {*below} - {"spark"}),
        "Above it, only commands": ("source_modules", {*packages, "graphs"} - {*below}),
        "Graph algorithms use": ("forbidden_modules", {*packages} - {"errors", "version"}),
    }
    for beginning, (part, expected) in lists.items():
        (found,) = (each[part] for each in CONTRACTS if each["name"].startswith(beginning))
        assert sorted(found) == sorted(f"pointstamp.{each}" for each in expected), beginning


def test_imports_for_types_count() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert not settings.get("exclude_type_checking_imports", False)
    excepted = {
        one.rpartition(" -> ")[2]
        for each in CONTRACTS
        for one in each.get("ignore_imports", [])
        if "*" not in one
    }
    assert excepted <= {"pyspark", "pointstamp.dataflow.table", "pointstamp.dataflow.stream"}
