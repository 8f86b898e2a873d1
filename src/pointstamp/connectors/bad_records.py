"""Write unreadable records to a folder: ``on_bad=ps.io.BadRecords(path)``.

Each record is one object, named by its topic, partition and offset:

    <path>/topic=orders/partition=0/00000000000000000042.json

So a record that is read again, after a crash or by another worker, is written once. It is durable before the
epoch of its neighbors is published. The flow does not know of these records, and none of its columns is for
them, so a query can be restarted with this option from the checkpoint that it has.
"""

import base64
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pointstamp.errors import AlreadyStored
from pointstamp.redaction import RedactedRepr
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

if TYPE_CHECKING:
    from confluent_kafka import Message


@dataclass(frozen=True, slots=True, repr=False)
class BadRecords(RedactedRepr):
    """A folder for records that cannot be decoded. All workers must be able to write to it.

    A record is a JSON object with ``topic``, ``partition``, ``offset``, ``timestamp`` (milliseconds since
    1970), ``reason``, and ``key`` and ``value`` as text, which are null if the bytes are not UTF-8.
    ``key_base64`` and ``value_base64`` have the bytes.

    ``path`` is a local folder, or an address that fsspec opens with ``storage_options``.

    Examples:
        >>> ps.io.BadRecords("/data/bad")
        BadRecords(path='/data/bad')

    """

    path: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        path = os.fspath(self.path)
        # Workers may run in another folder than the driver.
        object.__setattr__(self, "path", path if "://" in path else os.path.abspath(path))

    def storage(self) -> Storage:
        """Open the folder."""
        return storage_at(self.path, **self.storage_options)


def write_bad_records(folder: BadRecords, bad: Iterable[tuple["Message", str]]) -> None:
    """Store records with the reason why each cannot be read; one that is stored stays as it is."""
    storage = folder.storage()
    for message, reason in bad:
        offset = message.offset() or 0
        name = f"topic={message.topic()}/partition={message.partition()}/{offset:020d}.json"
        with suppress(AlreadyStored):
            storage.create(name, msgspec.json.encode(_content(message, reason)) + b"\n")


def _content(message: "Message", reason: str) -> dict[str, Any]:
    key, value = message.key(), message.value()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "reason": reason,
        "key": _text(key),
        "value": _text(value),
        "key_base64": _base64(key),
        "value_base64": _base64(value),
    }


def _text(content: bytes | str | None) -> str | None:
    if isinstance(content, bytes):
        try:
            return content.decode()
        except UnicodeDecodeError:
            return None
    return content


def _base64(content: bytes | str | None) -> str | None:
    if content is None:
        return None
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()
