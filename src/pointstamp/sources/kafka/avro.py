"""Values in Avro, in a registry's wire format: decoded here, with the schemas that their numbers stand for.

Schemas are given by number, or asked of a registry by its address, each once in a process.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.request import urlopen

import pyarrow as pa

from pointstamp.errors import FlowError, PointstampError, StorageError
from pointstamp.sources.kafka.decoding import HEADER_BYTES, NO_HEADER, Decoded, decode_each

_ANSWER_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Decodes values by the schemas of a registry: its address, or a mapping of numbers to schemas."""

    registry: str | Mapping[int, Any]

    def __call__(self, values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
        """Avro records, with the columns of a schema."""
        bad = (PointstampError, ValueError, LookupError, EOFError, TypeError)
        return decode_each(values, schema, self._decoded, bad)

    def _decoded(self, value: bytes) -> dict[str, Any]:
        from fastavro import schemaless_reader

        if value[:1] != b"\0" or len(value) < HEADER_BYTES:
            raise ValueError(NO_HEADER)
        number = int.from_bytes(value[1:HEADER_BYTES], "big")
        found = schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), self._schema(number), None)
        if not isinstance(found, dict):
            raise ValueError("it is no record of Avro's")
        return found

    def _schema(self, number: int) -> Any:  # noqa: ANN401 - as fastavro has it
        if isinstance(self.registry, str):
            return _asked(self.registry, number)
        if number not in self.registry:
            raise ValueError(f"its schema has the number {number}, which was not given")
        return _parsed(json.dumps(self.registry[number]))


def check_avro_installed() -> None:
    """FlowError where fastavro is not installed."""
    try:
        import fastavro  # noqa: F401 - whether it is there
    except ImportError as error:
        raise FlowError("Avro needs the package fastavro. Install pointstamp[kafka].") from error


@cache
def _parsed(text: str) -> Any:  # noqa: ANN401 - as fastavro has it
    from fastavro import parse_schema

    return parse_schema(json.loads(text))


@cache
def _asked(registry: str, number: int) -> Any:  # noqa: ANN401 - as above
    address = f"{registry.rstrip('/')}/schemas/ids/{number}"
    if not address.startswith(("http://", "https://")):
        raise FlowError(f"the registry '{registry}' must be an address that begins with http:// or https://.")
    try:
        with urlopen(address, timeout=_ANSWER_SECONDS_MAX) as answer:  # noqa: S310 - checked above
            return _parsed(json.loads(answer.read())["schema"])
    except (OSError, ValueError, KeyError) as error:
        raise StorageError(f"the registry at '{registry}' did not give schema {number}: {error}.") from error
