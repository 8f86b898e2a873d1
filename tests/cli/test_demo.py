"""The main job, on a small graph: it runs on Spark, publishes every epoch, and agrees with scipy."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


@pytest.mark.spark
def test_the_demo_maintains_components_and_agrees_with_scipy() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "pointstamp.cli.main", "demo", "--edges", "20000", "--output", folder],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "scipy finds the same components" in ran.stderr
        assert "20,000 edges over 600,000 vertices arrive in 20 epochs" in ran.stderr
        assert len(list(Path(folder, "components").glob("epoch-*.parquet"))) == 40
