"""A driver as a program that copies one topic of Kafka to another, and dies at a moment that it is told.

``python -m support.kafka_drivers FOLDER TOPIC TOPIC MOMENT`` doubles the numbers of what is there, on two
workers in processes of their own, ten records an epoch, and ends. At its MOMENT in the second commit it kills
itself, by a signal that nothing can catch: "before the transaction", when its rows are sent and it is "not
in the journal" yet, when it is "flushed" and not committed, when it is "committed"; or it kills a "worker"
then. Any other word is never. So nothing has to be timed.
"""

import os
import signal
import sys
from functools import partialmethod
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Producer

import pointstamp as ps
from pointstamp.journal.history import Committed
from pointstamp.journal.ledger import Ledger
from pointstamp.query.local_query import ProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage
from support.kafka_broker import address

ROWS_PER_TICK: Final = 10
_SILENCE_SECONDS_MAX: Final = 120.0


def doubled() -> ps.Dataflow:
    """Each number, and twice of it."""
    flow = ps.Dataflow("doubled")
    numbers = flow.stream_input("numbers", "n long")
    flow.output("doubled", numbers.exchange("n").with_columns(twice=ps.col("n") * 2))
    return flow


def run(folder: Path, source: str, target: str, moment: str) -> None:
    """Copy what is there."""
    launcher = ProcessLauncher(silence_seconds_max=_SILENCE_SECONDS_MAX)
    commits = 0
    journal = Ledger.commit

    class Dying(Producer):  # type: ignore[misc]  # its types are not read
        def begin_transaction(self) -> None:
            nonlocal commits
            commits += 1
            if moment == "worker" and commits == 2:
                assert launcher.crew is not None
                os.kill(launcher.crew.pids[0], signal.SIGKILL)
            self._die("before the transaction")
            super().begin_transaction()
            Ledger.commit = partialmethod(written, self)  # type: ignore[method-assign,assignment]

        def commit_transaction(self, *args: Any) -> None:  # noqa: ANN401 - passed on
            super().flush()
            self._die("flushed")
            super().commit_transaction(*args)
            self._die("committed")

        def _die(self, now: str) -> None:
            if moment == now and commits == 2:
                os.kill(os.getpid(), signal.SIGKILL)

    def written(ledger: Ledger, producer: Dying, *args: Any, **options: Any) -> Committed:  # noqa: ANN401
        if moment == "not in the journal":
            producer.flush()
        producer._die("not in the journal")
        return journal(ledger, *args, **options)

    confluent_kafka.Producer = Dying
    spec = QuerySpec(
        doubled().plan,
        {"numbers": ps.io.kafka(address(), source, rows_per_tick=ROWS_PER_TICK)},
        ps.io.KafkaSink(address(), target, key="n", epoch="epoch"),
        LocalStorage(folder),
        2,
        f"query-{target}",
        SnapshotPolicy(epochs=1),
        RestartPolicy(restarts_max=5, pause_seconds=0.0),
        available_now=True,
    )
    Supervisor(spec, launcher).run()


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:5])
