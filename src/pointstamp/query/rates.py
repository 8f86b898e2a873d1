"""What two reports of a worker's load say about the time between them: rows a second, and busy shares."""

from dataclasses import dataclass, field

from pointstamp.running.messages import Load


@dataclass(frozen=True, slots=True)
class OperatorRate:
    """One operator on one worker: what waits there, rows a second in and out, and its share of the time."""

    batches_waiting: int
    rows_waiting: int
    rows_in: float
    rows_out: float
    busy: float


@dataclass(slots=True)
class WorkerRates:
    """The load of one worker, from its last two reports; changed by whoever hears of them."""

    last: Load
    busy: float = 0.0
    """The share of a core that its process has used."""
    operators: dict[int, OperatorRate] = field(default_factory=dict)

    @classmethod
    def first(cls, load: Load) -> "WorkerRates":
        """What is known after one report: what waits, and no rates."""
        waiting = {
            each.operator: OperatorRate(each.batches_waiting, each.rows_waiting, 0.0, 0.0, 0.0)
            for each in load.operators
        }
        return cls(load, operators=waiting)

    def then(self, load: Load) -> "WorkerRates":
        """What is known after another report; of another process, or the same again, nothing new."""
        before = self.last
        seconds, looks = load.seconds - before.seconds, load.looks - before.looks
        if seconds == 0:
            return self
        if seconds < 0 or looks < 0 or load.processor_seconds < before.processor_seconds:
            return WorkerRates.first(load)
        rates = {}
        for old, new in zip(before.operators, load.operators, strict=True):
            rates[new.operator] = OperatorRate(
                new.batches_waiting,
                new.rows_waiting,
                max(0, new.rows_in - old.rows_in) / seconds,
                max(0, new.rows_out - old.rows_out) / seconds,
                min(1.0, (new.seen - old.seen) / looks) if looks else 0.0,
            )
        busy = (load.processor_seconds - before.processor_seconds) / seconds
        return WorkerRates(load, min(busy, 99.0), rates)
