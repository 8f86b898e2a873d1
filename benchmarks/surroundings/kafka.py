"""From a topic of Kafka to another: how long until what was sent can be read there, and how many a second.

    .venv/bin/python -m benchmarks.surroundings.kafka [--epochs 200] [--rows 1000] [--records 10000000]
        [--only pointstamp Flink] [--tasks latency throughput] [--seconds-max 900] [--megabytes-max 8000]
        [--out FILE]

- *latency*: some records are sent, and when a reader of committed records has all that was made of them, the
  next are sent. ``ms_median`` and ``ms_p99`` are from the first record's sending to the last one's arrival;
  ``ratio`` is by the copy, which does nothing else. The aim is a median below 25 ms, exactly once.
- *throughput*: a topic is filled once, and each contender counts its records by key (1,000 of them), until a
  reader finds counts that add up to all. ``rows_per_second``, and ``ratio``, by that of pointstamp.

``--only "pointstamp, 100 rows" "pointstamp, 10000 bytes"`` and others measure ticks of so much at most.

One JSON line for each cell. Every contender is on the same broker, which is started on loopback, in a process
of its own, and is ended after ``--seconds-max``; a cell that fails or takes longer is a line that says so.
With ``--out``, lines are added to a file, and cells that have a line there are not run again. ``cpu_seconds``
is the processor time of sender, contender and reader together, JVMs included.
"""

import argparse
import json
import sys
from pathlib import Path
from time import monotonic, perf_counter

import numpy as np
from benchmarks.figures import Figures, line_of, lines_in
from benchmarks.limits import Limits, processor_seconds, run_limited
from benchmarks.surroundings.contenders import CONTENDERS, COUNTED, DOUBLED, TICKS, reader
from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.kafka_broker import address, new_topic

WARM_UP = 20
KEYS = 1_000
TASKS = ("latency", "throughput")
ARRIVE_SECONDS_MAX = 300.0
_EVERYBODY = {**CONTENDERS, **TICKS}


def arrivals(source: str, target: str, epochs: int, rows: int) -> list[float]:
    """The ms that each epoch took, one after the other."""
    producer, consumer = Producer({"bootstrap.servers": address(), "linger.ms": 0}), reader(address(), target)
    taken = []
    for epoch in range(epochs + WARM_UP):
        begin = perf_counter()
        for number in range(epoch * rows, (epoch + 1) * rows):
            producer.produce(source, b'{"n": %d}' % number)
        producer.flush()
        left, deadline = rows, monotonic() + ARRIVE_SECONDS_MAX
        while left > 0:
            if monotonic() > deadline:
                raise SystemExit(f"of epoch {epoch}, {left} records did not arrive")
            for message in consumer.consume(left, 1.0):
                left -= 0 if message.error() else 1
        taken.append((perf_counter() - begin) * 1000)
    consumer.close()
    return taken[WARM_UP:]


def fill(topic: str, records: int) -> None:
    """Send the records that are to be counted."""
    producer = Producer({"bootstrap.servers": address(), "linger.ms": 50, "batch.num.messages": 100_000})
    values = [b'{"k": %d}' % key for key in range(KEYS)]
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % KEYS])
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def counted(target: str, records: int) -> None:
    """Return when the counts by key that can be read add up."""
    consumer = reader(address(), target)
    counts: dict[int, int] = {}
    while sum(counts.values()) < records:
        for message in consumer.consume(10_000, 0.2):
            if not message.error() and message.value() is not None:
                row = json.loads(message.value())
                counts[row["k"]] = row["n"]
    consumer.close()


def latency(contender: str, epochs: int, rows: int) -> dict[str, float]:
    """The delay of epochs one after the other."""
    source, target = new_topic(), new_topic()
    with _EVERYBODY[contender](DOUBLED, address(), source, target):
        taken = arrivals(source, target, epochs, rows)
        cpu_seconds = processor_seconds()
    return {
        "ms_median": float(np.median(taken)),
        "ms_p99": float(np.percentile(taken, 99)),
        "cpu_seconds": cpu_seconds,
    }


def throughput(contender: str, source: str, records: int) -> dict[str, float]:
    """How long it takes to count what is there, from the start to the last count."""
    target = new_topic()
    begin = perf_counter()
    with _EVERYBODY[contender](COUNTED, address(), source, target):
        counted(target, records)
        seconds = perf_counter() - begin
        cpu_seconds = processor_seconds()
    return {"rows_per_second": records / seconds, "seconds": seconds, "cpu_seconds": cpu_seconds}


# The cells, each in a process of its own.


def cell(given: argparse.Namespace, task: str, contender: str, topic: str) -> Figures:
    """Run one cell in a session that is ended in time; its figures, or why there are none."""
    sizes = ["--epochs", given.epochs, "--rows", given.rows, "--records", given.records]
    command = [
        sys.executable,
        "-m",
        "benchmarks.surroundings.kafka",
        *sizes,
        "--cell",
        task,
        contender,
        topic,
    ]
    limits = Limits(given.seconds_max, given.megabytes_max)
    ended = run_limited([str(each) for each in command], limits, POINTSTAMP_TEST_KAFKA=address())
    if ended.lines:
        return {**ended.lines[-1], "peak_megabytes": round(ended.peak_megabytes)}
    words = ended.said.strip().splitlines()[-1:] if ended.outcome == "failed" else []
    return {"failed": " ".join([ended.outcome, *words])[:300]}


def one_cell(given: argparse.Namespace, task: str, contender: str, topic: str) -> None:
    """What a process of a cell does."""
    if task == "latency":
        figures = latency(contender, given.epochs, given.rows)
    else:
        figures = throughput(contender, topic, given.records)
    print(line_of(contender, **figures), flush=True)


def run(given: argparse.Namespace) -> None:
    """Measure what has no line yet."""
    done = lines_in(given.out.read_text()) if given.out is not None and given.out.exists() else []
    topic = ""
    for task in given.tasks:
        base = 0.0
        for contender in given.only:
            if task == "throughput" and contender == "copy":
                continue
            about = _about(given, task, contender)
            figures = next((each for each in done if about.items() <= each.items()), None)
            is_new = figures is None
            if figures is None:
                if task == "throughput" and not topic:
                    topic = new_topic()
                    fill(topic, given.records)
                figures = cell(given, task, contender, topic)
            value = float(figures.get("ms_median" if task == "latency" else "rows_per_second") or 0)
            base = base or value
            if is_new:
                ratio = {"ratio": value / base} if value else {}
                _tell({**figures, **about, **ratio}, given.out)


def _about(given: argparse.Namespace, task: str, contender: str) -> Figures:
    """What tells a cell from others."""
    sizes = {"epochs": given.epochs, "rows": given.rows} if task == "latency" else {"records": given.records}
    return {"case": f"{task}, {contender}", **sizes}


def _tell(figures: Figures, out: Path | None) -> None:
    line = line_of(
        figures["case"], **{name: each for name, each in figures.items() if name not in ("case", "load")}
    )
    print(line, flush=True)
    if out is not None:
        with out.open("a") as file:
            print(line, file=file)


def main() -> None:
    """Measure each contender."""
    parser = argparse.ArgumentParser(description="From topic to topic of Kafka.")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="+", choices=[*_EVERYBODY], default=[*CONTENDERS])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--seconds-max", type=float, default=900.0)
    parser.add_argument("--megabytes-max", type=float, default=8_000.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell is not None:
        one_cell(given, *given.cell)
    else:
        run(given)


if __name__ == "__main__":
    main()
