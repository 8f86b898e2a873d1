"""A flow that is saved after some epochs and resumes from that, on the same or another number of workers.

What stands between saving and restoring is what a real run has there: each worker's pieces in the order in
which they were saved, merged and shared out again, after the operators that made them have continued. Every
table that was saved is looked at again at the end, for none may have changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pointstamp.driver.local_run import LocalRun, workers_of
from pointstamp.flow.plan import Plan
from pointstamp.state.declared import stateful_of
from pointstamp.state.pieces import Piece, merged, owned
from pointstamp.topology.ports import OperatorIndex


class Journey:
    """Drives one plan epoch by epoch, and keeps what comes out as ``results[output, epoch]``."""

    def __init__(self, plan: Plan, workers: int) -> None:
        self.plan = plan
        self.epoch = 0
        self.results: dict[tuple[str, int], pa.Table] = {}
        self.saved: dict[tuple[OperatorIndex, str], list[list[Piece]]] = {}
        self._witnesses: list[tuple[pa.Table, bytes]] = []
        self.run = LocalRun(plan, workers, on_result=self._keep)

    @property
    def workers(self) -> int:
        return len(workers_of(self.run))

    def next_epoch(self, data: Mapping[str, Any]) -> None:
        """Send one epoch, in as many parts as there are batches, and let it come to its end."""
        for name, batches in data.items():
            for batch in batches:
                self.run.input(name).send(batch)
        self.epoch += 1
        for handle in self.run.inputs.values():
            handle.advance_to(self.epoch)
        self.run.settle()

    def save(self, *, changes_only: bool) -> None:
        """Let every operator on every worker save what it keeps."""
        for number, worker in enumerate(workers_of(self.run)):
            for index, instance in worker.instances.items():
                stateful = stateful_of(instance.logic, instance.name)
                pieces = {} if stateful is None else stateful.save(changes_only=changes_only)
                for name, piece in pieces.items():
                    assert piece.is_whole or changes_only, f"'{instance.name}' saved changes only"
                    chains = self.saved.setdefault((index, name), [[] for _ in workers_of(self.run)])
                    chains[number].append(piece)
                    self._witnesses.append((piece.table, written(piece.table)))

    def go_on(self, workers: int) -> None:
        """Forget the run, and resume from what was saved last, which was after the last epoch."""
        saved, self.saved = self.saved, {}
        self.run.close()
        self.run = LocalRun(self.plan, workers, on_result=self._keep)
        for worker, each in enumerate(workers_of(self.run)):
            for index, instance in each.instances.items():
                stateful = stateful_of(instance.logic, instance.name)
                if stateful is not None:
                    tables = {
                        name: restored(savers, worker, workers)
                        for (of, name), savers in saved.items()
                        if of == index
                    }
                    stateful.restore(instance.context, tables)
        for handle in self.run.inputs.values():
            handle.advance_to(self.epoch)
        self.run.settle()

    def finish(self) -> None:
        """End the run, and look at everything that was saved on the way."""
        for handle in self.run.inputs.values():
            handle.close()
        self.run.settle()
        assert self.run.is_complete
        for table, before in self._witnesses:
            assert written(table) == before, "what was saved has changed afterwards"

    def __enter__(self) -> "Journey":
        return self

    def __exit__(self, *_: object) -> None:
        # Also where hypothesis gives up an example half way: what is held then is nobody's mistake.
        self.run.close()

    def _keep(self, name: str, epoch: int, table: pa.Table) -> None:
        assert (name, epoch) not in self.results
        self.results[name, epoch] = table


def restored(savers: Sequence[Sequence[Piece]], worker: int, workers: int) -> pa.Table:
    """The rows of one worker: its own where as many resume as have saved, and otherwise those of its keys."""
    if len(savers) == workers:
        return merged(savers[worker])
    keys = savers[0][-1].keys
    assert keys is not None
    if not keys:  # what every worker knows
        return pa.concat_tables([merged(pieces) for pieces in savers])
    return pa.concat_tables([owned(merged(pieces), keys, worker, workers) for pieces in savers])


def written(table: pa.Table) -> bytes:
    """The table as a file has it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
