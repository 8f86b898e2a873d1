"""A real Kafka broker on loopback, one for a process of tests: its jars are got once, it starts in seconds.

Where Java or the jars cannot be had, a test that needs the broker fails and says so. With the address of one
in ``POINTSTAMP_TEST_KAFKA``, that one is used, and stays.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from support.watcher import call_off, watched

ROOT: Final = Path(__file__).parents[2]
START_SECONDS_MAX: Final = 300.0
READ_SECONDS_MAX: Final = 180.0
SETTLE_SECONDS_MAX: Final = 2.0
# A small heap, and the fast start of a compiler that does less.
JVM: Final = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """One node, with its log in a folder; stopped by its process id."""

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        port, controller = _free_port(), _free_port()
        self.address = f"127.0.0.1:{port}"
        self._port = port
        java = shutil.which("java")
        if java is None:
            raise AssertionError(
                "Tests of Kafka start a broker and need Java, which was not found: run make setup."
            )
        got = subprocess.run(
            [sys.executable, str(ROOT / "scripts/jars.py"), "kafka"], capture_output=True, text=True
        )
        if got.returncode:
            raise AssertionError(f"Tests of Kafka start a broker. {got.stderr.strip()}")
        self._java = [java, *JVM, QUIET, "-cp", f"{got.stdout.strip()}/*"]
        self._settings = folder / "server.properties"
        self._write_settings(port, controller, settings or {})
        self.process: subprocess.Popen[bytes] | None = None

    def _write_settings(self, port: int, controller: int, further: Mapping[str, object]) -> None:
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.folder / "log",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 2097152,
            # A machine that stands still for a while is no reason to take the only broker for dead.
            "broker.session.timeout.ms": 60000,
            "controller.quorum.fetch.timeout.ms": 60000,
            "request.timeout.ms": 60000,
            **further,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def start(self) -> "Broker":
        """Start it, for the first time or again, and wait until it listens."""
        said = self.folder / "said.txt"
        with said.open("ab") as out:
            if not (self.folder / "log" / "meta.properties").exists():
                formatting = [
                    "kafka.tools.StorageTool",
                    "format",
                    "--standalone",
                    "-t",
                    "MkU3OEVBNTcwNTJENDM2Qg",
                ]
                subprocess.run(
                    [*self._java, *formatting, "-c", str(self._settings)], check=True, stdout=out, stderr=out
                )
            self.process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._settings)], stdout=out, stderr=out
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), 0.2).close()
                return self
            time.sleep(0.05)
        raise AssertionError(f"The Kafka broker did not start: {said.read_text()[-2000:]}")

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End its process."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(by)
            self.process.wait(30)


@cache
def address() -> str:
    """The address of the broker of this process of tests, which ends with it."""
    given = os.environ.get("POINTSTAMP_TEST_KAFKA")
    if given:
        return given
    folder = Path(tempfile.mkdtemp(prefix="pointstamp-kafka-"))
    broker = Broker(folder).start()
    assert broker.process is not None
    (folder / "pid").write_text(str(broker.process.pid))
    watcher = watched(folder / "pid", folder, signal.SIGKILL)
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:  # and not a child that was forked
            broker.stop(signal.SIGKILL)
            call_off(watcher)
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return broker.address


def new_topic(partitions: int = 1, *, name: str | None = None, **settings: str) -> str:
    """The name of a topic that was just made at the shared broker."""
    name = name or f"t-{uuid4().hex[:12]}"
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin().create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(READ_SECONDS_MAX)
    _ends(name)  # once it has leaders
    return name


@cache
def admin() -> AdminClient:
    """A client that asks the broker."""
    return AdminClient({"bootstrap.servers": address(), "log_level": 2})


@cache
def _producer() -> Producer:
    return Producer({"bootstrap.servers": address(), "log_level": 2})


def _settled(topic: str) -> dict[int, int]:
    """The last stable offsets, a moment after a commit: Kafka writes its marks after it has answered.

    The transaction of a dead process stays open, and is not waited for longer than that.
    """
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while (ends := _ends(topic)) != _ends(topic, IsolationLevel.READ_UNCOMMITTED):
        if time.monotonic() > deadline:
            break
    return ends


def _ends(topic: str, level: IsolationLevel = IsolationLevel.READ_COMMITTED) -> dict[int, int]:
    """The last stable offset of each partition, or the last of all, once Kafka knows the topic."""
    deadline = time.monotonic() + READ_SECONDS_MAX
    while True:
        try:
            partitions = admin().list_topics(topic, READ_SECONDS_MAX).topics[topic].partitions
            wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
            stable = admin().list_offsets(wanted, isolation_level=level)
            return {place.partition: each.result(READ_SECONDS_MAX).offset for place, each in stable.items()}
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"the topic {topic} has no leaders") from error
            time.sleep(0.05)


class Seen(NamedTuple):
    """A record as a reader of committed records sees it."""

    key: bytes | None
    value: bytes
    partition: int
    offset: int


def put(topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:  # noqa: ANN401
    """Send records, and wait until Kafka has them."""
    for value in values:
        _producer().produce(topic, value, partition=partition, **more)
    assert _producer().flush(READ_SECONDS_MAX) == 0


@cache
def _transactions() -> Producer:
    settings = {"bootstrap.servers": address(), "transactional.id": f"tests-{uuid4().hex}", "log_level": 2}
    producer = Producer(settings)
    producer.init_transactions(READ_SECONDS_MAX)
    return producer


def put_in_transaction(
    topic: str, values: Iterable[bytes | None], partition: int = 0, *, commits: bool = True
) -> None:
    """Send records in a transaction, and commit it or roll it back."""
    producer = _transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(READ_SECONDS_MAX) == 0
    (producer.commit_transaction if commits else producer.abort_transaction)(READ_SECONDS_MAX)
    producer.begin_transaction()  # which waits until the mark of the last one is there
    producer.abort_transaction(READ_SECONDS_MAX)


def committed(topic: str) -> list[Seen]:
    """All records of a topic that readers of committed records see now, by partition and offset.

    That is up to the last stable offset of each partition.
    """
    settings = {"bootstrap.servers": address(), "group.id": "reader", "enable.auto.commit": False}
    ends = _settled(topic)
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    left = {number for number, end in ends.items() if end}
    consumer.assign([TopicPartition(topic, number, 0) for number in left])
    found: list[Seen] = []
    deadline = time.monotonic() + READ_SECONDS_MAX
    while left:
        assert time.monotonic() < deadline, f"the topic {topic} could not be read to its end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error, number, offset = message.error(), message.partition(), message.offset()
        assert number is not None
        assert offset is not None
        if error is None:
            value = message.value()
            found.append(Seen(message.key(), b"" if value is None else value, number, offset))
            offset += 1
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
        if offset >= ends[number]:
            left.discard(number)
    consumer.close()
    return sorted((each for each in found if each.offset < ends[each.partition]), key=lambda each: each[2:])
