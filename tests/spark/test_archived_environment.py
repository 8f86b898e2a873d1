"""A packed environment, shipped with the session and unpacked beside executors of a standalone cluster.

Only this can find what reaches executors because they run the Python of this repository: kernels and core
that the environment does not bring, or that are not found where it is unpacked. The archive is what venv-pack
makes, but for the first lines of its scripts: a venv with the wheel and what the wheel needs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from support.standalone import LOOPBACK, ROOT, environment, standalone

pytestmark = pytest.mark.spark

JOB_SECONDS_MAX = 600
JOB = """
import json, sys
import pyarrow as pa
from pyspark.sql import SparkSession
import pointstamp as ps

SCHEMA = "prefix string, kernels string, core boolean, package string, k long, total long"

def where(batch):
    import pointstamp
    from pointstamp.arrow import runs
    from pointstamp.compiled import is_compiled
    here = {
        "prefix": sys.prefix,
        "kernels": runs.__file__,
        "core": is_compiled(),
        "package": pointstamp.__file__,
    }
    columns = {name: pa.array([each] * batch.num_rows) for name, each in here.items()}
    return pa.record_batch({**columns, "k": batch["k"], "total": batch["total"]})

flow = ps.Dataflow("shipped")
table = flow.table("a", "id long, k long, v long")
flow.output("out", table.group_by("k").agg(total=ps.sum("v")).map_batches(where, schema=SCHEMA))
spark = (
    SparkSession.builder.master(sys.argv[1])
    .config("spark.archives", sys.argv[3] + "#environment")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.executor.memory", "600m")
    .config("spark.executor.cores", "1")
    .config("spark.cores.max", "2")
    .getOrCreate()
)
rows = spark.createDataFrame([(n, n % 3, n) for n in range(300)], "id long, k long, v long")
found = flow.run(on=spark, a=rows, workers=2, output=sys.argv[2])["out"]
print(json.dumps([row.asDict() for row in found.collect()]))
spark.stop()
"""


def needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A distribution that is installed here, and those that it needs."""
    own = found.setdefault(name, distribution(name))
    for wanted in own.requires or []:
        other = re.split(r"[ ;<>=!~\[(]", wanted)[0].lower()
        if "extra ==" not in wanted and other not in found:
            try:
                needed(other, found)
            except ModuleNotFoundError:  # for another system
                continue
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed environment with a wheel of pointstamp, what it needs, and pandas."""
    folder = tmp_path_factory.mktemp("packed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("pointstamp-*.whl")
    env = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True, timeout=120)
    (place,) = env.glob("lib/python*/site-packages")
    shutil.unpack_archive(wheel, place, "zip")
    wanted = needed("pandas", needed("pointstamp", {}))
    assert "pyspark" not in wanted
    for name, own in wanted.items():
        for file in own.files or [] if name != "pointstamp" else []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = place / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), target)
    packed = folder / "env.tar.gz"
    with tarfile.open(packed, "w:gz", compresslevel=1) as tar:
        tar.add(env, ".")
    return packed


@pytest.mark.long
def test_executors_run_the_compiled_files_of_an_archived_environment(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POINTSTAMP_CORE", raising=False)  # by which the other tests run it as Python
    around = environment(tmp_path) | {
        "PYSPARK_PYTHON": "./environment/bin/python",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    with standalone(tmp_path, workers=[LOOPBACK] * 2, cores=1) as master:
        done = subprocess.run(
            [sys.executable, "-c", JOB, master, str(tmp_path / "out"), str(archive)],
            env={name: value for name, value in around.items() if name != "PYTHONPATH"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4_000:]
    rows = json.loads(done.stdout.strip().splitlines()[-1])
    totals = {row["k"]: row["total"] for row in rows}
    assert totals == {k: sum(range(k, 300, 3)) for k in range(3)}
    for row in rows:
        unpacked = Path(row["prefix"])
        assert unpacked.name == "environment"
        assert unpacked.is_relative_to(os.path.realpath(tmp_path / "work"))
        assert row["core"]
        assert all(Path(row[what]).is_relative_to(unpacked) for what in ("kernels", "package"))
        assert "pointstamp_compiled/kernels-" in row["kernels"]
