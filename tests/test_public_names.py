"""The public names: each is there, and none is loaded before it is used."""

import subprocess
import sys

import pytest

import pointstamp as ps


def test_every_public_name_is_there_and_listed() -> None:
    assert dir(ps) == sorted(ps.__all__)
    for name in ps.__all__:
        assert getattr(ps, name) is not None
    assert set(ps._HOMES) | {"__version__"} == set(ps.__all__)


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match="pointstamp has no 'Dataflows'; it has Aggregate"):
        getattr(ps, "Dataflows")  # noqa: B009 - it is the access that is tested


def test_importing_pointstamp_loads_neither_arrow_nor_spark() -> None:
    heavy = ("pyarrow", "numpy", "pyspark", "zmq")
    code = f"import sys, pointstamp.cli.main; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert ran.stdout.strip() == "[]"
