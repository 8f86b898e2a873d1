"""Views over Delta and Iceberg tables, written as Delta tables of the catalog, in the Spark of their jars.

One job (``support.lake_job``) in an environment with the newest Spark for which both have jars: after each
insert, update, delete, merge and compaction, each view is Spark's own answer; a view that Spark recomputes is
published with the others; tables that cannot be followed are rejected with the fix.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.lake_job import CHANGES
from support.spark_of_delta import SECONDS_MAX, jars, python_of_delta

JOB = Path(__file__).parents[1] / "support" / "lake_job.py"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the job has printed."""
    found = [str(path) for name in ("delta", "iceberg") for path in sorted(jars(name).glob("*.jar"))]
    packages = next((python_of_delta().parent.parent / "lib").glob("python*/site-packages"))
    settings = {name: each for name, each in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    # Its Spark is the older one, and everything else is of this environment.
    settings |= {"PYTHONPATH": f"{packages}:{JOB.parents[2] / 'src'}", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(JOB), str(tmp_path_factory.mktemp("lake")), ",".join(found)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=settings)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout.splitlines()


def said(told: list[str], word: str) -> list[str]:
    return [line.removeprefix(word + " ") for line in told if line.startswith(word + " ")]


def test_each_view_is_sparks_own_answer_after_every_change(told: list[str]) -> None:
    assert [int(line.split()[0]) for line in said(told, "EQUAL")] == list(range(len(CHANGES) + 1))


def test_a_commit_of_the_query_is_one_version_of_a_table(told: list[str]) -> None:
    (versions,) = map(int, said(told, "VERSIONS"))
    assert versions <= 2 + len(CHANGES) + 1  # the table is made, and marked before its first commit


def test_explain_says_how_tables_are_followed(told: list[str]) -> None:
    (text,) = said(told, "EXPLAIN")
    assert "input orders: Delta table" in text
    assert "and its changes, a version per epoch" in text
    assert "input shops: Iceberg table 'ice.db.shops' and its changes, a snapshot per epoch" in text
    assert "view 'sure' (refresh policy AUTO): recomputed in full by Spark at each refresh" in text


def test_tables_that_cannot_be_followed_are_rejected_with_the_fix(told: list[str]) -> None:
    plain, merged = said(told, "REJECTED")
    assert "input 'plain' (Delta table" in plain
    assert "cannot be followed: the table has no change data feed. Run ALTER TABLE" in plain
    assert "deletes rows by delete files (merge-on-read)" in merged
    assert "write.delete.mode" in merged
