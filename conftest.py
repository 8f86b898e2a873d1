"""Which tests run with the core as Python, and which with the compiled one (``pointstamp.compiled``).

Without POINTSTAMP_CORE in the environment all run it as Python. Where it is ``compiled``, those are left out
that need the source: what replaces something with ``monkeypatch``, because a compiled class keeps its
methods, and examples in docstrings. ``scripts/test.py`` runs these as Python, and so, once more, the tests of
the packages that the core is of. Tests that start Spark replace nothing of the core, and run with whatever
core is there.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

os.environ.setdefault("POINTSTAMP_CORE", "python")

ROOT: Final = Path(__file__).parent
BOTH_WAYS: Final = tuple(ROOT / "tests" / package for package in ("order", "progress", "worker"))


@pytest.fixture(autouse=True)
def names_of_examples(request: pytest.FixtureRequest) -> None:
    """Give the examples in docstrings the names that a reader imports first."""
    if isinstance(request.node, pytest.DoctestItem):
        import pyarrow as pa  # not before POINTSTAMP_CORE is set
        import pyarrow.compute as pc

        import pointstamp as ps

        names: dict[str, Any] = request.getfixturevalue("doctest_namespace")
        names.update(ps=ps, pa=pa, pc=pc, F=ps.functions)
        if request.node.path.name == "query.py":
            names["query"] = request.getfixturevalue("example_query")


@pytest.fixture(scope="session")
def example_query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The query of the example of ``ps.Query``, which those of its methods use."""
    import pyarrow as pa
    from pyarrow import parquet

    import pointstamp as ps

    folder = tmp_path_factory.mktemp("query")
    (folder / "in").mkdir()
    parquet.write_table(pa.table({"word": ["so", "so"]}), folder / "in" / "1.parquet")
    flow = ps.Dataflow("words")
    flow.output("counts", flow.table("words", "word string").count("word"))
    source = ps.io.files(folder / "in")
    query = flow.start(words=source, checkpoint=folder / "state", output=folder / "out")
    query.process_all_available()
    yield query
    query.stop()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Import a module of the source by its name, because pytest would import some of them a second time."""
    source = ROOT / "src"
    if type(collector).__name__ == "DoctestModule" and collector.path.is_relative_to(source):
        name = ".".join(collector.path.relative_to(source).with_suffix("").parts)
        import_module(name.removesuffix(".__init__"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts Spark or needs the source; leave out the latter where the core is compiled."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):  # the session that these tests share
            item.add_marker("spark")
        replaces = "monkeypatch" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("spark")
        if isinstance(item, pytest.DoctestItem) or replaces:
            item.add_marker("as_python")
        if any(item.path.is_relative_to(folder) for folder in BOTH_WAYS):
            item.add_marker("both_ways")
    if os.environ["POINTSTAMP_CORE"] == "compiled":
        left_out = [item for item in items if item.get_closest_marker("as_python") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("as_python") is None]
