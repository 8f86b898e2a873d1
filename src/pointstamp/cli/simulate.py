"""``pointstamp simulate``: a flow in many simulated worlds, verified event by event.

Exit code 0 only if every world emitted what one worker emits and the verifier found no error; 1 for a
finding, or if a world did not end; 2 for a file or a command line that cannot be used.
"""

import argparse
import re
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pointstamp.cli.subcommand import AddParser, described
from pointstamp.errors import FlowError, UsageError

if TYPE_CHECKING:
    from pointstamp.simulate.case import Case
    from pointstamp.simulate.seeds import Outcome, Report, Simulator


_DESCRIPTION = """\
Tests a flow in many simulated worlds: with several workers, delayed messages, workers
that stall, other batches and partitions of the rows, overlapping epochs. Each world must emit the
same rows at the same times as one worker does, and every event is verified against the formal models. A world
that fails is shrunk, and a command that repeats it is printed. With --crashes the flow runs as a query with
snapshots, and workers, drivers and storage fail at any step: what is published must be the same as if nothing
had failed, and what happened must be explained by a run without failures.

FLOW.py has a Dataflow named flow, and inputs: a dictionary, or a function that returns one, with a list of
epochs for each input of the flow; an epoch is a list of dictionaries, an Arrow table or a frame. If a flow
has custom times, it is a list of (time, rows) pairs, the items; --epochs and --rows then number the items
of each input, from 0, and items keep their times. If times are epochs, the epochs that are fed are numbered
again.
"""


def add_to(add_parser: AddParser) -> None:
    """Add ``simulate`` to the command line."""
    simulate = described(add_parser, "simulate", "test a flow in many simulated worlds", _DESCRIPTION, _run)
    simulate.add_argument("flow", metavar="FLOW.py", help="a Python file with a flow and its inputs")
    simulate.add_argument(
        "--seeds",
        metavar="N",
        type=_positive,
        default=200,
        help="number of worlds to simulate (default: 200)",
    )
    simulate.add_argument(
        "--workers",
        metavar="A-B",
        type=_span,
        default=(1, 4),
        help="number of workers, or a range (default: 1-4)",
    )
    simulate.add_argument(
        "--crashes",
        metavar="A-B",
        type=_crash_span,
        help="run it as a query with snapshots, with this number of crashes in each world (0-4)",
    )
    simulate.add_argument("--replay", metavar="SEED", type=int, help="run only the world of this seed")
    simulate.add_argument(
        "--epochs", metavar="LIST", help="with --replay: feed only these epochs (or items), 0,3-5"
    )
    simulate.add_argument(
        "--rows", metavar="ROWS", help="with --replay: feed only these, input=epoch.row,... (or item.row)"
    )
    simulate.add_argument(
        "--choices", metavar="LIST", help="with --replay: use the default for all other choices"
    )
    simulate.add_argument(
        "--trace",
        "--record",
        metavar="FILE",
        help="save the events of the failing or replayed world, or of the last one if none fails",
    )
    simulate.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a number of at least 1, not {text!r}")
    return int(text)


def _span(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    fewest = int(found[1]) if found else 0
    most = int(found[2] or fewest) if found else 0
    if not 1 <= fewest <= most:
        raise argparse.ArgumentTypeError(f"needs a number of workers, 2, or a range, 1-4, not {text!r}")
    return fewest, most


def _crash_span(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    fewest = int(found[1]) if found else 1
    most = int(found[2] or fewest) if found else 0
    if fewest > most:
        raise argparse.ArgumentTypeError(f"needs a number of crashes, 2, or a range, 0-4, not {text!r}")
    return fewest, most


def _run(arguments: argparse.Namespace) -> int:
    from pointstamp.cli import flowfile
    from pointstamp.simulate.case import prepared
    from pointstamp.simulate.crash.seeds import CrashSimulator
    from pointstamp.simulate.seeds import Simulator

    chosen = _case(arguments)
    file = flowfile.load(arguments.flow)
    kind = Simulator if arguments.crashes is None else CrashSimulator
    try:
        simulator = kind(file.flow.plan, prepared(file.flow.plan, file.inputs), file=arguments.flow)
    except FlowError as error:
        raise UsageError(f"{arguments.flow}: {error}") from error
    if arguments.trace:
        _check_writable(simulator)
    began = perf_counter()
    report, found = _replay(simulator, chosen) if chosen is not None else _many(simulator, arguments)
    seconds = perf_counter() - began
    recorded = found or report.last
    if arguments.trace and recorded is not None:
        _save(simulator, recorded, arguments.trace)
    if arguments.json:
        sys.stdout.write(_json(simulator, report, found, seconds) + "\n")
    else:
        sys.stdout.write(_text(simulator, report, found, seconds, arguments) + "\n")
    return 0 if report.verdict.value == "valid" else 1


def _case(arguments: argparse.Namespace) -> "Case | None":
    """The one world that was asked for, if one was."""
    from pointstamp.simulate.case import Case, parse_numbers, parse_rows
    from pointstamp.simulate.seeds import crashes_of, workers_of

    if arguments.replay is None:
        for option in ("epochs", "rows", "choices"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"simulate: --{option} belongs to --replay SEED, which is missing.")
        return None
    crashes: int | None = None
    if arguments.crashes is not None:
        fewest, most = arguments.workers
        crashes = crashes_of(arguments.replay, most - fewest + 1, *arguments.crashes)
    return Case(
        arguments.replay,
        workers_of(arguments.replay, *arguments.workers),
        None if arguments.epochs is None else parse_numbers("epochs", arguments.epochs),
        None if arguments.rows is None else parse_rows(arguments.rows),
        None if arguments.choices is None else frozenset(parse_numbers("choices", arguments.choices)),
        crashes,
    )


def _replay(simulator: "Simulator", case: "Case") -> "tuple[Report, Outcome | None]":
    from pointstamp.simulate.seeds import replay

    return replay(simulator, case)


def _many(simulator: "Simulator", arguments: argparse.Namespace) -> "tuple[Report, Outcome | None]":
    from pointstamp.cli import simulate_display
    from pointstamp.simulate.seeds import cases, simulate
    from pointstamp.simulate.shrink import Shrinking

    fewest, most = arguments.workers
    wanted = cases(range(arguments.seeds), fewest, most, arguments.crashes)
    with simulate_display.progress(arguments.seeds + 1, quiet=arguments.json) as shown:
        report = simulate(simulator, wanted, shown.world)
        if report.finding is None:
            return report, None
        shrinking = Shrinking(simulator, report.finding, shown.shrinking)
        smallest = shrinking.run()
        report.is_repeatable = shrinking.is_repeatable
        return report, smallest


def _check_writable(simulator: "Simulator") -> None:
    """Refuse at once, and not after all worlds, where times are of a type that no trace can hold."""
    from pointstamp.verify.trace import check_writable

    given = [item.time for items in simulator.inputs.values() for item in items]
    check_writable(simulator.plan.name, [*given, simulator.plan.root.minimum()])


def _save(simulator: "Simulator", outcome: "Outcome", name: str) -> None:
    from pathlib import Path

    from pointstamp.simulate.crash.seeds import CrashOutcome, crash_trace
    from pointstamp.simulate.crash.trace import save_crashes
    from pointstamp.verify.trace import save

    try:
        if isinstance(outcome, CrashOutcome):
            save_crashes(crash_trace(simulator, outcome), Path(name))
        else:
            save(simulator.trace(outcome), Path(name))
    except OSError as error:
        raise UsageError(f"simulate: the trace cannot be written to {name}: {error.strerror}.") from error


def _text(
    simulator: "Simulator",
    report: "Report",
    found: "Outcome | None",
    seconds: float,
    arguments: argparse.Namespace,
) -> str:
    from pointstamp.cli import simulate_display

    if arguments.replay is not None and found is not None:
        return simulate_display.replayed_text(simulator, found, arguments.trace)
    return simulate_display.report_text(simulator, report, found, seconds, arguments.workers, arguments.trace)


def _json(simulator: "Simulator", report: "Report", found: "Outcome | None", seconds: float) -> str:
    import msgspec

    document: dict[str, Any] = {
        "flow": simulator.plan.name,
        "verdict": report.verdict.value,
        "worlds": report.worlds,
        "events": report.events,
        "seconds": round(seconds, 3),
        "unknown": [{"seed": each.case.seed, "reason": each.reason} for each in report.unknown],
        "finding": None,
    }
    if found is not None and found.is_finding:
        document["finding"] = {
            "kind": found.kind.value,
            "property": found.verdict.property,
            "reason": found.reason,
            "seed": found.case.seed,
            "workers": found.case.workers,
            "crashes": found.case.crashes,
            "events": len(found.run.events),
            "is_repeatable": report.is_repeatable,
            "replay": found.case.command(simulator.file),
        }
    return msgspec.json.format(msgspec.json.encode(document)).decode()
