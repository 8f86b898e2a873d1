"""Tables of PostgreSQL: what a reader sees is whole epochs, once, no matter which process dies.

Families, and what only each can find:
- the public claims on a real server: a process dies before any statement, and before and after any commit,
  by a connection that is cut without a word;
- random changes of tables, with a key and without, beside a counter: rows that are lost, doubled or back;
- two drivers in processes that race for every commit;
- types: each comes back as the value that it was, or is rejected with an error;
- queries: a flow on workers, restarts and a server that was killed included;
- refusals: keys that are none, tables of others, names and types that do not fit.
"""

import datetime
import math
import pickle
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

import pointstamp as ps
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.connectors.postgres.output_tables import COMMITS_KEPT
from pointstamp.connectors.sink import Sink, Staged
from pointstamp.errors import FlowError, PointstampError, RecoveryError, SchemaError, StorageError
from pointstamp.journal.ledger import Ledger
from pointstamp.testing import SINK_SCHEMAS, Died, SeenRows, Steps, sink_claims
from pointstamp.testing.sink_claims import SinkClaim
from support.postgres import Server

CHANGES = pa.schema([("x", pa.int64()), ("s", pa.string()), DIFF_FIELD])
SECONDS_MAX = 180


class SteppingConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose statements and commits are steps; its process's death cuts it without a word."""

    steps: Steps

    def _take(self) -> None:
        try:
            self.steps.take()
        except Died:
            self.pgconn.finish()
            raise

    def cursor(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
        self._take()  # for a COPY, and for ``execute``, which asks for one
        return super().cursor(*args, **options)

    def commit(self) -> None:
        self._take()
        super().commit()


@dataclass
class Postgres:
    """A schema of its own on the server."""

    server: Server
    schema: str = field(default_factory=lambda: f"place_{uuid.uuid4().hex[:12]}")

    @contextmanager
    def process(self, steps: Steps) -> Iterator[Sink]:
        opened: list[SteppingConnection] = []

        def connect(conninfo: str) -> SteppingConnection:
            connection = SteppingConnection.connect(conninfo)
            connection.steps = steps
            opened.append(connection)
            return connection

        try:
            yield ps.io.PostgresSink(self.server.conninfo, self.schema, connect=connect)
        finally:
            for connection in opened:
                connection.close()

    def seen(self) -> SeenRows:
        return {name: sorted(rows(self.server, self.schema, name)) for name in SINK_SCHEMAS}

    def stored(self) -> object:
        listed = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        tables = [name for (name,) in self.server.look(listed, [self.schema])]
        return {table: rows(self.server, self.schema, table) for table in tables}

    def is_stored(self, piece: Staged) -> bool:
        token = piece.path.rpartition("/")[2]
        return any(token in row for table in self.stored().values() for row in table)  # type: ignore[attr-defined]


def rows(server: Server, schema: str, table: str) -> list[tuple[Any, ...]]:
    """What anybody sees of a table; nothing where there is none."""
    names = [name.replace("%", "%%") for name in (schema, table)]  # for a statement with parameters
    text = sql.SQL("SELECT * FROM {} ORDER BY 1, 2").format(sql.Identifier(*names))
    try:
        return server.look(text)
    except psycopg.errors.UndefinedTable:
        return []


DEATHS = sink_claims.a_process_may_die_before_any_step_and_the_next_one_completes_its_work
OTHERS = [claim for claim in ps.testing.SINK_CLAIMS if claim is not DEATHS]


@pytest.mark.parametrize("claim", OTHERS, ids=lambda claim: claim.__name__)
def test_tables_of_postgresql_keep_the_contract(claim: SinkClaim, server: Server) -> None:
    claim(lambda: Postgres(server))


def test_a_process_may_die_before_many_a_step_and_the_next_one_completes_its_work(server: Server) -> None:
    DEATHS(lambda: Postgres(server), every=5)


@pytest.mark.long
def test_a_process_may_die_before_any_step_and_the_next_one_completes_its_work(server: Server) -> None:
    DEATHS(lambda: Postgres(server))


# Tables.


def sink_at(
    server: Server,
    schemas: dict[str, pa.Schema] | None = None,
    **options: Any,  # noqa: ANN401 - as the sink takes them
) -> ps.io.PostgresSink:
    made = ps.io.PostgresSink(server.conninfo, f"place_{uuid.uuid4().hex[:12]}", **options)
    return made.for_query("q", schemas or {"table": CHANGES})


def changes(*weights: tuple[int, str | None, int]) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([{"x": x, "s": s, "diff": d} for x, s, d in weights], CHANGES)]


def test_a_table_is_what_the_changes_add_up_to_with_a_key_and_without(server: Server) -> None:
    chosen = random.Random(7)
    schemas = {"keyed": CHANGES, "weighted": CHANGES}
    sink = sink_at(server, schemas, keys={"keyed": ["x"]})
    publisher, writers = sink.publisher(), [sink.writer(worker, 0) for worker in (0, 1)]
    by_key: dict[int, str | None] = {}
    by_weight: Counter[tuple[int, str | None]] = Counter()
    texts = [None, "", "a", 'it"s\n\\N,', "ä"]
    for number in range(14):
        epochs: dict[str, list[dict[int, list[pa.RecordBatch]]]] = {name: [{}, {}] for name in schemas}
        for epoch in (2 * number, 2 * number + 1):
            for worker in (0, 1):
                rows_of: dict[str, list[tuple[int, str | None, int]]] = {"keyed": [], "weighted": []}
                for x in chosen.sample(range(worker, 12, 2), 4):
                    if x in by_key:
                        rows_of["keyed"].append((x, by_key.pop(x), -1))
                    if chosen.random() < 0.7:
                        by_key[x] = chosen.choice(texts)
                        rows_of["keyed"].append((x, by_key[x], 1))
                    row = (x % 3, chosen.choice(texts))
                    weight = chosen.randrange(-by_weight[row], 4)
                    by_weight[row] += weight
                    rows_of["weighted"].append((*row, weight))
                for name, found in rows_of.items():
                    epochs[name][worker][epoch] = changes(*found)
        staged = [
            piece for name in schemas for w in (0, 1) for piece in writers[w].stage(name, epochs[name][w])
        ]
        publisher.publish(number, 2 * number + 1, staged)
        assert dict(rows(server, sink.schema, "keyed")) == by_key
        seen = {(x, s): weight for x, s, weight in rows(server, sink.schema, "weighted")}
        assert seen == {row: weight for row, weight in by_weight.items() if weight}
    close(publisher, *writers)


def close(*parts: Any) -> None:  # noqa: ANN401 - writers and publishers
    for part in parts:
        part._database.close()


def test_two_drivers_that_publish_every_commit_at_the_same_time_publish_it_once(server: Server) -> None:
    sink = sink_at(server, {"plain": pa.schema([("x", pa.int64())]), "table": CHANGES}, keys={"table": ["x"]})
    writer, commits = sink.writer(0, 0), []
    for number in range(20):
        plain = writer.stage("plain", {number: [pa.record_batch({"x": [number]})]})
        old = [(0, str(number - 1), -1)] if number else []
        commits.append([*plain, *writer.stage("table", {number: changes(*old, (0, str(number), 1))})])
    ready, failed = threading.Barrier(2), list[BaseException]()

    def drive() -> None:
        publisher = sink.publisher()
        try:
            for number, staged in enumerate(commits):
                ready.wait(SECONDS_MAX)
                publisher.publish(number, number, staged)
        except BaseException as error:
            failed.append(error)
            ready.abort()
        finally:
            close(publisher)

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(SECONDS_MAX)
    assert failed == []
    assert rows(server, sink.schema, "plain") == [(number, number) for number in range(20)]
    assert rows(server, sink.schema, "table") == [(0, "19")]
    close(writer)


def test_an_old_number_is_known_to_be_there_after_its_content_is_forgotten(server: Server) -> None:
    sink = sink_at(server)
    publisher = sink.publisher()
    publisher.publish(0, 0, [])
    with closing(psycopg.connect(server.conninfo)) as connection:
        place = sql.Identifier(sink.schema, "_pointstamp_commits")
        text = sql.SQL("UPDATE {} SET number = %s").format(place)
        connection.execute(text, [COMMITS_KEPT + 999])
        connection.commit()
    publisher.publish(COMMITS_KEPT + 1000, 7, [])
    publisher.publish(5, 5, [])
    assert [row[1] for row in rows(server, sink.schema, "_pointstamp_commits")] == [
        COMMITS_KEPT + 999,
        COMMITS_KEPT + 1000,
    ]
    assert publisher.published_through() == 7
    close(publisher)


# Types.

UTC = datetime.UTC
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "booleans": (pa.bool_(), [True, False]),
    "bytes": (pa.uint8(), [0, 255]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1]),
    "words": (pa.uint32(), [2**32 - 1]),
    "large": (pa.uint64(), [2**64 - 1]),
    "longs": (pa.int64(), [-(2**63), 2**63 - 1]),
    "floats": (pa.float32(), [0.1, -math.inf]),
    "doubles": (pa.float64(), [0.1 + 0.2, 5e-324, math.inf]),
    "texts": (pa.string(), ["", 'a"b', "a,b\r\nc", "\\.", "NULL", "\\N"]),
    "binary": (pa.binary(), [b"", b"\0\xff\\x"]),
    "dates": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "times": (pa.time64("us"), [datetime.time(23, 59, 59, 999_999)]),
    "local": (pa.timestamp("us"), [datetime.datetime(1969, 12, 31, 23, 59, 59, 1)]),
    "zoned": (pa.timestamp("us", "Asia/Tokyo"), [datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)]),
    "spans": (pa.duration("us"), [datetime.timedelta(days=-1, microseconds=1)]),
    "decimals": (pa.decimal128(20, 3), [Decimal("-12345678901234567.891")]),
    "lists": (pa.list_(pa.string()), [[], ["a", None, "NULL", "", 'x"y\\,{}']]),
    "lists of lists": (pa.list_(pa.float64()), [[1.5, None]]),
}


def test_every_value_comes_back_as_it_was(server: Server) -> None:
    length = max(len(values) for _, values in VALUES.values()) + 1
    columns = {name: [*values, *[None] * (length - len(values))] for name, (_, values) in VALUES.items()}
    schema = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
    sink = sink_at(server, {"all": schema})
    writer, publisher = sink.writer(0, 0), sink.publisher()
    publisher.publish(0, 0, writer.stage("all", {0: [pa.record_batch(columns, schema)]}))
    with closing(psycopg.connect(server.conninfo, options="-c timezone=UTC")) as connection:
        text = sql.SQL("SELECT * FROM {}").format(sql.Identifier(sink.schema, "all"))
        found = connection.execute(text).fetchall()
    for position, (name, wanted) in enumerate(columns.items(), start=1):
        assert sorted(repr(_plain(row[position])) for row in found) == sorted(map(repr, wanted)), name
    close(writer, publisher)


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever psycopg gives
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (pa.timestamp("ns"), 1, "cannot hold"),
        (pa.string(), "a\0b", r"U\+0000"),
    ],
)
def test_a_value_that_postgresql_cannot_hold_is_refused(
    kind: pa.DataType, value: object, said: str, server: Server
) -> None:
    schema = pa.schema([("x", kind)])
    writer = sink_at(server, {"plain": schema}).writer(0, 0)
    with pytest.raises(SchemaError, match=said):
        writer.stage("plain", {0: [pa.record_batch([pa.array([value], kind)], schema=schema)]})


# Queries.


def words_flow() -> ps.Dataflow:
    flow = ps.Dataflow("words")
    words = flow.stream_input("words", "word string")
    flow.output("said", words)
    flow.output("counts", words.to_table().count("word"))
    return flow


def word(text: str) -> list[dict[str, str]]:
    return [{"word": each} for each in text.split()]


def test_a_query_that_aborts_and_a_server_that_is_killed_lose_nothing_and_double_nothing(
    tmp_path: Path,
) -> None:
    source = ps.testing.ScriptedSource(
        word("a b a"), ps.testing.PAUSE, ps.testing.ABORT, word("b"), ps.testing.PAUSE, word("a c"), word("c")
    )
    with Server() as own:

        def start() -> ps.Query:
            return words_flow().start(
                words=source,
                checkpoint=str(tmp_path / "checkpoint"),
                output=ps.io.PostgresSink(own.conninfo, "words", keys={"counts": ["word"]}),
                workers=2,
                options=ps.QueryOptions(restarts=ps.RestartPolicy(restarts_max=100, pause_seconds=0.05)),
            )

        query = start()
        wait_for_epoch(query, 0)
        source.go_on()
        with pytest.raises(ps.testing.ScriptAbortedError, match="the script aborts after group 0"):
            query.await_termination(SECONDS_MAX)
        query = start()
        wait_for_epoch(query, 1)
        assert rows(own, "words", "counts") == [("a", 2), ("b", 2)]
        own.stop("immediate")
        source.go_on()
        own.start()
        assert query.await_termination(SECONDS_MAX)
        assert rows(own, "words", "counts") == [("a", 3), ("b", 2), ("c", 2)]
        said = [(0, "a"), (0, "a"), (0, "b"), (1, "b"), (2, "a"), (2, "c"), (3, "c")]
        assert rows(own, "words", "said") == said
        query.stop()


def wait_for_epoch(query: ps.Query, epoch: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while query.epoch < epoch:
        assert time.monotonic() < deadline, query
        query.await_termination(0.02)


# Refusals.


def test_columns_that_are_no_key_end_the_query_in_words_and_change_nothing(server: Server) -> None:
    sink = sink_at(server, keys={"table": ["x"]})
    publisher, writer = sink.publisher(), sink.writer(0, 0)
    publisher.publish(0, 0, writer.stage("table", {0: changes((1, "a", 1))}))
    for wrong in ([(1, "b", 1)], [(2, "a", 1), (2, "b", 1)], [(1, "other", -1)], [(3, "c", 2)]):
        with pytest.raises(FlowError, match=r"key.*Nothing was changed"):
            publisher.publish(1, 1, writer.stage("table", {1: changes(*wrong)}))
    assert rows(server, sink.schema, "table") == [(1, "a")]
    close(publisher, writer)


def test_rows_that_are_less_than_nothing_are_refused(server: Server) -> None:
    sink = sink_at(server)
    publisher, writer = sink.publisher(), sink.writer(0, 0)
    publisher.publish(0, 0, writer.stage("table", {0: changes((1, None, 2))}))
    for wrong in ([(1, None, -3)], [(2, "a", -1)]):
        with pytest.raises(FlowError, match="another writer has changed the table"):
            publisher.publish(1, 1, writer.stage("table", {1: changes(*wrong)}))
    assert rows(server, sink.schema, "table") == [(1, None, 2)]
    close(publisher, writer)


def test_staged_rows_that_somebody_has_removed_are_missed(server: Server) -> None:
    sink = sink_at(server)
    publisher, writer = sink.publisher(), sink.writer(0, 0)
    staged = writer.stage("table", {0: changes((1, "a", 1))})
    publisher.discard(1, [])
    with pytest.raises(StorageError, match=r"expected 1 staged rows .* got 0"):
        publisher.publish(0, 0, staged)
    assert publisher.published_through() is None
    close(publisher, writer)


def test_tables_of_others_and_other_columns_are_refused_before_anything_is_written(server: Server) -> None:
    sink = sink_at(server)
    publisher = sink.publisher()
    publisher.publish(0, 0, [])
    others = {
        "belongs to the query 'q'": sink.for_query("another", sink.schemas),
        "x bigint, s text": sink.for_query("q", {"table": pa.schema([("x", pa.int32()), DIFF_FIELD])}),
        "weighted": replace(sink, keys={"table": ["x"]}),
    }
    for said, other in others.items():
        asked = other.publisher()
        with pytest.raises(RecoveryError, match=f"{said}.*Nothing was changed"):
            asked.check_outputs([])
    with closing(psycopg.connect(server.conninfo)) as connection:
        connection.execute(sql.SQL("CREATE TABLE {} ()").format(sql.Identifier(sink.schema, "mine")))
        connection.commit()
    with pytest.raises(RecoveryError, match="which no query of pointstamp has made"):
        sink.for_query("q", {"mine": CHANGES}).publisher().check_outputs([])
    close(publisher)


@pytest.mark.parametrize(
    ("schemas", "options", "said"),
    [
        ({"a": pa.schema([("x", pa.null())])}, {}, r"no types: 'x' \(null\)"),
        ({"a" * 64: pa.schema([("x", pa.int64())])}, {}, "1 to 63 bytes"),
        ({"_pointstamp_commits": pa.schema([("x", pa.int64())])}, {}, "not begin with '_pointstamp'"),
        ({"a": pa.schema([("epoch", pa.int64())])}, {}, "has a column 'epoch'"),
        ({"a": pa.schema([("weight", pa.int64()), DIFF_FIELD])}, {}, "has a column 'weight'"),
        ({"a": CHANGES}, {"keys": {"b": ["x"]}}, "keys= names 'b', but the outputs are a"),
        ({"a": CHANGES}, {"keys": {"a": ["y"]}}, "has no column y"),
        ({"a": CHANGES}, {"keys": {"a": "x"}}, r"must be a list of columns, got 'x'"),
        ({"a": pa.schema([("x", pa.int64())])}, {"keys": {"a": ["x"]}}, "is a stream"),
    ],
)
def test_outputs_that_do_not_fit_are_refused_in_words(
    schemas: dict[str, pa.Schema], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(FlowError, match=said):
        ps.io.PostgresSink("dbname=none", **options).for_query("q", schemas)


def test_a_null_in_a_key_is_refused_by_the_worker(server: Server) -> None:
    writer = sink_at(server, keys={"table": ["s"]}).writer(0, 0)
    with pytest.raises(SchemaError, match="null in the key column 's'"):
        writer.stage("table", {0: changes((1, None, 1))})


def test_a_server_that_is_not_there_is_said_without_the_password() -> None:
    sink = ps.io.PostgresSink("host=/nowhere user=me password=secret dbname=shop").for_query(
        "q", {"a": CHANGES}
    )
    with pytest.raises(StorageError, match="the database shop at /nowhere") as refused:
        sink.publisher().published_through()
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(sink)


def test_with_changes_a_table_is_appended_with_epochs_and_weights(server: Server) -> None:
    sink = sink_at(server, changes=True)
    there: ps.io.PostgresSink = pickle.loads(pickle.dumps(sink))  # noqa: S301 - just written here
    publisher, writer = sink.publisher(), there.writer(0, 0)
    assert writer.stage("table", {0: []}) == []
    publisher.publish(0, 1, writer.stage("table", {0: changes((1, "a", 1)), 1: changes((1, "a", -1))}))
    assert rows(server, sink.schema, "table") == [(0, 1, "a", 1), (1, 1, "a", -1)]
    close(publisher, writer)


# Names.

NAMES = [
    "a%",
    "100%s",
    "%(x)s",
    "weight",
    "come",
    "gone",
    "there",
    "net",
    "by_",
    'q"o',
    "{x}",
    "ä b",
    "oid",
    "n",
    "p",
]


@pytest.mark.parametrize("kind", ["appended", "keyed", "weighted"])
def test_any_name_can_be_that_of_a_schema_an_output_and_a_column(kind: str, server: Server) -> None:
    names = [name for name in NAMES if kind != "weighted" or name != "weight"]
    columns = [(name, pa.int64()) for name in names]
    schema = pa.schema(columns if kind == "appended" else [*columns, DIFF_FIELD])
    outputs = dict.fromkeys(["rate %s", "moved", "net"], schema)
    keys = dict.fromkeys(outputs, names[:2]) if kind == "keyed" else {}
    place = f"100% {uuid.uuid4().hex[:8]}"
    sink = ps.io.PostgresSink(server.conninfo, place, keys=keys).for_query("q", outputs)
    publisher, writer = sink.publisher(), sink.writer(0, 0)
    publisher.check_outputs([])

    def batch(number: int, weight: int) -> pa.RecordBatch:
        row = {name: number + 10 * (place > 1) for place, name in enumerate(names)}
        return pa.RecordBatch.from_pylist([row | ({} if kind == "appended" else {"diff": weight})], schema)

    for number, batches in enumerate([[batch(1, 1)], [batch(1, -1), batch(2, 1)], [batch(3, 1)]]):
        staged = [piece for output in outputs for piece in writer.stage(output, {number: batches})]
        publisher.publish(number, number, staged)
    publisher.discard(1, [])
    here = [2, 3] if kind != "appended" else [1, 1, 2, 3]
    for output in outputs:
        assert [row[int(kind == "appended")] for row in rows(server, place, output)] == here
    assert publisher.published_through() == 2
    close(publisher)


@pytest.mark.parametrize("name", ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"])
def test_the_name_of_a_system_column_is_rejected_before_a_query_starts(name: str) -> None:
    schemas = {"a": pa.schema([(name, pa.int64())])}
    with pytest.raises(
        SchemaError, match=f"'{name}' is the name of a system column of PostgreSQL. Rename it"
    ):
        ps.io.PostgresSink("dbname=none").for_query("q", schemas)
    ps.io.PostgresSink("dbname=none").for_query("q", {name: pa.schema([(name.upper(), pa.int64())])})


def test_what_postgresql_cannot_hold_is_rejected_before_a_query_starts() -> None:
    many = pa.schema([(f"c{number}", pa.int64()) for number in range(1_597)])
    with pytest.raises(SchemaError, match="has 1597 columns; a PostgreSQL table has at most 1596"):
        ps.io.PostgresSink("dbname=none").for_query("q", {"a": many})
    wide = pa.schema([*((f"c{number}", pa.int64()) for number in range(40)), DIFF_FIELD])
    with pytest.raises(SchemaError, match="has a key of 33 columns; a PostgreSQL key has at most 32"):
        ps.io.PostgresSink("dbname=none", keys={"a": wide.names[:33]}).for_query("q", {"a": wide})
    for schema in ("", "pg_mine", "a" * 64, "a\0"):
        with pytest.raises(
            FlowError, match=r"schema must be a name of 1 to 63 bytes that does not begin with 'pg_'"
        ):
            ps.io.PostgresSink("dbname=none", schema).for_query("q", {"a": CHANGES})


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_query_whose_commits_were_deleted_from_the_database_is_rejected(
    is_noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise PointstampError("died here")

    with Server() as own:

        def run() -> None:
            flow = words_flow()
            query = flow.start(
                words=[pa.record_batch({"word": ["a", "b"]})],
                checkpoint=str(tmp_path / "checkpoint"),
                output=ps.io.PostgresSink(own.conninfo, "words"),
                options=ps.QueryOptions(restarts=ps.RestartPolicy(restarts_max=0)),
            )
            try:
                assert query.await_termination(SECONDS_MAX)
            finally:
                query.stop(finish=False)

        if is_noted:
            run()
            run()
        else:
            with monkeypatch.context() as patched:
                patched.setattr(Ledger, "note_published", die)
                with pytest.raises(PointstampError, match="died here"):
                    run()
        with closing(psycopg.connect(own.conninfo)) as connection:
            connection.execute("DELETE FROM words._pointstamp_commits")
            connection.commit()
        reached = "published up to epoch 0" if is_noted else "begun to publish"
        with pytest.raises(RecoveryError, match=rf"has {reached}, but the output has no commit"):
            run()
        assert rows(own, "words", "said") == [(0, "a"), (0, "b")]
