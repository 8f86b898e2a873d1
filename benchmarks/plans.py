"""What the rules of the optimizer save: the queries of TPC-H with rules and without, checked and trusted.

    .venv/bin/python -m benchmarks.plans [--scale 0.3] [--only q1 q3 q6] [--epochs 8] [--beside FOLDER]

One JSON line for each query and way. A query runs in a process of its own, which ``benchmarks.sql.tpch``
measures, one way after the other: ``off`` without rules (``POINTSTAMP_OPTIMIZE=off``), ``on`` with them, and
``trusted`` also without a check that a row that is deleted is there. ``beside`` is another checkout of this
repository, whose figures come first. CPU times of one run can be compared where others use the machine, too.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.sql.tpch_queries import NAMES

HERE: Final = Path(__file__).parent.parent
SECONDS_MAX: Final = 900
SHOWN: Final = ("load_s", "load_cpu_s", "update_ms", "cpu_ms", "state_mb", "input_mb")


def main() -> None:
    """Run the queries that are asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--scale", type=float, default=0.3)
    asked.add_argument("--only", nargs="*", default=NAMES)
    asked.add_argument("--epochs", type=int, default=8)
    asked.add_argument("--beside", type=Path, help="another checkout of this repository")
    given = asked.parse_args()
    ways: dict[str, tuple[Path, dict[str, str], list[str]]] = {
        "off": (HERE, {"POINTSTAMP_OPTIMIZE": "off"}, []),
        "on": (HERE, {}, []),
        "trusted": (HERE, {}, ["--trusted"]),
    }
    if given.beside is not None:
        ways = {"beside": (given.beside, {}, []), **ways}
    for name in given.only:
        for way, (folder, variables, options) in ways.items():
            command = ["--only", name, "--scale", str(given.scale), "--epochs", str(given.epochs), *options]
            figures = measured(folder.resolve(), command, variables)
            kept = {each: round(figures[each], 3) for each in SHOWN}
            print(json.dumps({"query": name, "scale": given.scale, "way": way, **kept}), flush=True)


def measured(folder: Path, options: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """Return the figures of one query, by the sources of a checkout."""
    paths = [str(folder / "src"), str(folder), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "-m", "benchmarks.sql.tpch", "--folder", results, *options]
        ran = subprocess.run(  # noqa: S603 - ourselves
            command,
            cwd=folder,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=SECONDS_MAX,
        )
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
