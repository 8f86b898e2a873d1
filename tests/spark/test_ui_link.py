"""The link from Spark's UI to a dashboard, in a session of its own that has a UI.

Spark decides what of a job's description becomes a link; only its own page shows that.
"""

import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.request import urlopen

import pytest

from pointstamp.spark.crew import job_description

pytestmark = [pytest.mark.spark, pytest.mark.long]
SECONDS_MAX = 300.0


def test_a_name_that_looks_like_markup_is_a_name() -> None:
    assert "<b>" not in job_description("<b>", 1, None)


def test_sparks_ui_links_to_the_dashboard_of_a_query(tmp_path: Path) -> None:
    command = [sys.executable, __file__, str(tmp_path)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    driver = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )
    try:
        assert driver.stdout is not None
        told = json.loads(driver.stdout.readline())
        with urlopen(f"{told['ui']}/jobs/", timeout=SECONDS_MAX) as answer:  # noqa: S310 - loopback
            page = unescape(answer.read().decode())
        (link,) = set(re.findall(r'<a href="(/pointstamp/[^"]+)"', page))
        assert "flow 'a < b', generation 1" in page
        with urlopen(f"{told['ui']}{link}", timeout=SECONDS_MAX) as answer:  # noqa: S310 - loopback
            assert answer.url == told["dashboard"]
            assert b"<title>pointstamp</title>" in answer.read()
    finally:
        driver.communicate("end\n", timeout=SECONDS_MAX)
    assert driver.returncode == 0


def main(folder: Path) -> None:
    """Be a driver with a UI and a dashboard until a line comes in."""
    from pyspark.sql import SparkSession

    import pointstamp as ps

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.port", "0")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    flow = ps.Dataflow("a < b")
    flow.output("out", flow.stream_input("rows", "x long").filter(ps.col("x") > 0))
    (folder / "in").mkdir()
    query = flow.start(
        on=spark,
        rows=ps.io.files(str(folder / "in")),
        checkpoint=folder / "c",
        output=folder / "o",
        workers=1,
        options=ps.QueryOptions(dashboard=True),
    )
    query.process_all_available()
    with query.dashboard() as dashboard:
        sys.stdout.write(
            json.dumps({"ui": spark.sparkContext.uiWebUrl, "dashboard": dashboard.address}) + "\n"
        )
        sys.stdout.flush()
        sys.stdin.readline()
    query.stop(finish=False)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
