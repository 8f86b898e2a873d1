"""The history of figures: what ``make bench`` printed, at which commit and on which machine.

    make bench                                              # also adds to benchmarks/history.jsonl
    .venv/bin/python -m benchmarks.history record < LINES   # adds lines that were printed before
    .venv/bin/python -m benchmarks.history compare A B      # two commits, by their first letters
    .venv/bin/python -m benchmarks.history list

Machines differ, and one machine is busy or idle; so what is compared is never a time but the *cost* against a
peer in the same run: our time by the peer's. A cost is read from the names of a line's figures: ``ratio``,
``cpu_ratio`` and ``ratio_to_PEER`` are costs; ``times_PEER`` is how often ours goes into the peer's; and
``PEER_NAME`` beside ``NAME``, where NAME is a time, gives one. A row whose cost has grown by more than 1.3
times is named as worse.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figures

HISTORY: Final = Path(__file__).parent / "history.jsonl"
WORSE_BY: Final = 1.3
TIMES: Final = ("seconds", "s", "ms", "us", "cpu_seconds", "cpu_ms")
"""Names of figures that are times; a peer's has its name before."""


def machine() -> dict[str, Any]:
    """What the machine is: its processor and how many cores, its system and Python."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {
        "processor": model or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit of this folder, with a plus if files have changed since; "unknown" outside of git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head, changed = (
            subprocess.run([*git, *asked], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
            for asked in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def record(lines: Iterable[str], path: Path = HISTORY) -> int:
    """Print lines as they come, and add those that are figures; how many these were."""
    head = {
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }
    added = 0
    with path.open("a") as history:
        for line in lines:
            print(line, end="" if line.endswith("\n") else "\n", flush=True)
            try:
                figures = json.loads(line) if line.startswith("{") else None
            except json.JSONDecodeError:
                continue
            if isinstance(figures, dict):
                history.write(json.dumps({**head, "figures": figures}) + "\n")
                added += 1
    return added


def read(path: Path = HISTORY) -> list[dict[str, Any]]:
    """Everything that was recorded, the oldest first."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def costs(figures: Figures) -> Iterator[tuple[str, float]]:
    """Each peer in a line, and our time by its time."""
    for name, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            continue
        if name in ("ratio", "cpu_ratio"):
            yield name, float(value)
        elif name.startswith("ratio_to_"):
            yield name.removeprefix("ratio_to_"), float(value)
        elif name.startswith("times_"):
            yield name.removeprefix("times_"), 1 / value
        else:
            for unit in TIMES:
                ours = figures.get(unit)
                if name.endswith(f"_{unit}") and isinstance(ours, int | float) and name not in TIMES:
                    yield name.removesuffix(f"_{unit}") + f" ({unit})", ours / value
                    break


def row_of(figures: Figures) -> str:
    """What a line is about: all that it says as text, and its sizes."""
    words = [(name, value) for name, value in figures.items() if isinstance(value, str) and name != "case"]
    return ", ".join([str(figures.get("case", "")), *(f"{name}={value}" for name, value in words)])


def of_commit(entries: Iterable[dict[str, Any]], beginning: str) -> dict[tuple[str, str], float]:
    """The last cost of each row and peer at a commit that begins so."""
    found: dict[tuple[str, str], float] = {}
    for entry in entries:
        if entry["commit"].startswith(beginning):
            for peer, cost in costs(entry["figures"]):
                found[row_of(entry["figures"]), peer] = cost
    return found


def compare(entries: list[dict[str, Any]], then: str, now: str) -> tuple[list[str], list[str]]:
    """A line for each row and peer that both commits have, and the names of those that became worse."""
    before, after = of_commit(entries, then), of_commit(entries, now)
    lines, worse = [], []
    for (row, peer), cost in after.items():
        if (row, peer) not in before:
            continue
        change = cost / before[row, peer]
        lines.append(f"{before[row, peer]:10.3f} {cost:10.3f} {change:8.2f} x  {row} against {peer}")
        if change > WORSE_BY:
            worse.append(f"{row} against {peer}: {change:.2f} x")
    return lines, worse


def show(then: str, now: str) -> str:
    """Two commits compared, as text."""
    entries = read()
    for each in (then, now):
        if not of_commit(entries, each):
            known = sorted({entry["commit"][:10] for entry in entries}) or ["none"]
            return f"no figure with a peer was recorded at a commit {each}; there are: {', '.join(known)}."
    lines, worse = compare(entries, then, now)
    text = [f"{'then':>10} {'now':>10} {'change':>8}    our time by the peer's, in the same run", *lines]
    text.append(f"{len(worse) or 'nothing is'} worse by more than {WORSE_BY} x" + ":" * bool(worse))
    return "\n".join([*text, *(f"  {each}" for each in worse)])


def main() -> None:
    """Do what the command says."""
    parser = argparse.ArgumentParser(description="The history of figures.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record", help="add the lines of the standard input")
    commands.add_parser("list", help="the commits that have figures")
    comparing = commands.add_parser("compare", help="costs against peers at two commits")
    comparing.add_argument("then")
    comparing.add_argument("now")
    asked = parser.parse_args()
    if asked.command == "record":
        record(sys.stdin)
    elif asked.command == "compare":
        print(show(asked.then, asked.now))
    else:
        for each in dict.fromkeys((entry["commit"][:12], entry["at"][:10]) for entry in read()):
            print(*each)


if __name__ == "__main__":
    main()
