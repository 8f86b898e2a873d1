"""Secrets: whatever place of an address a password stands in, nothing that is shown contains it.

Families:
- addresses: hypothesis writes a secret into each place of each kind of address, well-formed or not;
- objects: the ``repr``, the description and the errors of everything that is made with an address;
- identities: addresses that differ in more than a secret stay different;
- a broken redaction, which the family of addresses must find.
"""

import logging
import re
from collections.abc import Callable
from typing import NoReturn

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.connectors.kafka.record_decoding import AvroDecoder
from pointstamp.connectors.postgres.database import Database, connection_options
from pointstamp.errors import PointstampError
from pointstamp.redaction import harmless, identity, is_secret, redact, redact_options, redact_text
from pointstamp.storage.anywhere import FsspecStorage, storage_at, url_of

SECRET = "SECRETVALUE"  # noqa: S105 - what is looked for

# A password is a secret among characters that end other parts of an address.
passwords = st.tuples(
    st.text("ab1/?#@:&;= '\"\\%", max_size=6), st.text("ab1/?#@:&;= '\"\\%", max_size=6)
).map(lambda ends: f"{ends[0]}{SECRET}{ends[1]}")
schemes = st.sampled_from(
    ["postgresql", "http", "sftp", "s3", "postgresql+psycopg2", "SASL_SSL", "jdbc:postgresql"]
)
plain_passwords = st.text("abc123-_.%", max_size=4).map(lambda end: f"{end}{SECRET}{end}")
parameters = st.sampled_from(
    [*("password", "sslpassword", "sig", "token", "secret", "key", "X-Amz-Signature", "access_key"), "SAS"]
)


@given(schemes, passwords)
@example("postgresql", f"a/{SECRET}")
def test_a_url_is_redacted_whatever_its_password_contains(scheme: str, password: str) -> None:
    address = f"{scheme}://me:{password}@h/x"
    assert SECRET not in redact(address)
    assert SECRET not in redact_text(f"cannot open '{address}'", address)


@given(schemes, plain_passwords)
def test_a_url_without_its_userinfo_is_shown(scheme: str, password: str) -> None:
    assert redact(f"{scheme}://me:{password}@h/x") == f"{scheme}://***@h/x"
    assert redact_text(f"no {scheme}://me:{password}@h/x here") == f"no {scheme}://***@h/x here"


@given(parameters, st.text("ab1/?@: '\"", max_size=6), st.text("ab1/?@: '\"", max_size=6))
def test_a_query_parameter_that_is_secret_is_redacted(name: str, before: str, after: str) -> None:
    for scheme in ("https", "jdbc:postgresql"):
        assert SECRET not in redact(f"{scheme}://h/x?page=2&{name}={before}{SECRET}{after}")


@given(
    passwords.filter(lambda text: not re.match(r"\s*'", text)), st.sampled_from(["password", "sslpassword"])
)
@example(f"a {SECRET}", "password")
def test_an_unquoted_connection_string_is_redacted(password: str, name: str) -> None:
    address = f"host=h {name}={password} user=me"
    assert SECRET not in redact(address)
    assert redact(address).startswith("host=h ")


def test_a_piece_of_a_secret_that_another_library_quotes_is_redacted() -> None:
    told = redact_text(f'missing "=" after "{SECRET}"', f"host=h password=a {SECRET} user=me")
    assert told == 'missing "=" after "***"'


@given(passwords)
def test_a_quoted_connection_string_is_redacted(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace("'", "\\'")
    address = f"host=h password = '{quoted}' user=me"
    assert redact(address) == "host=h password = *** user=me"


def test_a_broken_redaction_that_ends_a_userinfo_at_the_first_slash_is_found() -> None:
    def strict(address: str) -> str:
        return re.sub(r"://[^/@]*@", "://***@", address)

    with pytest.raises(AssertionError, match="is contained here"):
        assert SECRET not in strict(f"postgresql://me:a/{SECRET}@h/x")


@pytest.mark.parametrize(
    "options",
    [
        {"sasl.password": SECRET},
        {"ssl.key.password": SECRET},
        {"sasl.jaas.config": f'PlainLoginModule required password="{SECRET}";'},
        {"basic.auth.user.info": f"me:{SECRET}"},
        {"schema.registry.url": f"http://me:{SECRET}@h"},
        {"ssl.key.pem": SECRET},
        {"key": SECRET, "secret": SECRET, "token": SECRET},
        {"client_kwargs": {"endpoint_url": f"http://me:{SECRET}@h", "aws_session_token": SECRET}},
        {"connection_string": f"AccountName=a;AccountKey={SECRET}"},
        {"account_key": SECRET, "sas_token": f"?sig={SECRET}"},
        {"uri": f"postgresql+psycopg2://me:{SECRET}@h/catalog", "s3.secret-access-key": SECRET},
    ],
)
def test_options_are_redacted_at_any_depth(options: dict[str, object]) -> None:
    assert SECRET not in str(redact_options(options))
    assert SECRET not in str(PointstampError(f"the options {options} do not fit."))
    assert set(redact_options(options)) == set(options)


def test_names_and_paths_that_only_resemble_secrets_are_shown() -> None:
    for shown in (
        "s3://bucket/folder@2",
        "/data/token=7/part",
        "host=db user=me",
        "broker:9092",
        "a@b/c",
        "abfss://box@acc.dfs/x",
    ):
        assert redact(shown) == shown
    assert not any(map(is_secret, ("sasl.username", "ssl.ca.location", "region", "monkey_name")))
    told = (
        "output 'n' has no column 'key': give keys={'n': ['k']}, or key='id'; lookup(key=k, at='token'); "
        "token= is set"
    )
    assert str(PointstampError(told)) == told


# Objects.

ADDRESS = f"sftp://me:a/{SECRET} '@h/x"
MADE: dict[str, Callable[[], object]] = {
    "files": lambda: ps.io.files(ADDRESS, storage_options={"password": SECRET}),
    "files with a mistake": lambda: ps.io.files(ADDRESS, units_per_tick=0),
    "files of a scheme that is not known": lambda: ps.io.files(f"nope://me:{SECRET} x@h/x").watch(None),
    "files with a port that is none": lambda: ps.io.files(f"ftp://me:{SECRET}/a@h/x").check(),
    "published": lambda: ps.io.published(ADDRESS, "n"),
    "delta": lambda: ps.io.delta(ADDRESS, storage_options={"token": SECRET}),
    "kafka": lambda: ps.io.kafka(f"me:{SECRET}@h:9092", "t", options={"sasl.password": SECRET}),
    "kafka with a registry": lambda: ps.io.kafka("h:1", "t", format="avro", registry=f"http://me:{SECRET}@h"),
    "kafka with a mistake": lambda: ps.io.kafka(f"me:{SECRET}@h:9092", "t", rows_per_tick=0),
    "a registry that does not answer": lambda: AvroDecoder(f"http://me:{SECRET}@127.0.0.1:9")(
        [b"\0\0\0\0\1x"], pa.schema([("a", pa.int64())])
    ),
    "ParquetSink": lambda: ps.io.ParquetSink(ADDRESS),
    "ParquetSink with a mistake": lambda: ps.io.ParquetSink(ADDRESS, partition_by="day"),
    "DeltaSink": lambda: ps.io.DeltaSink(ADDRESS, {"AWS_SECRET_ACCESS_KEY": SECRET}),
    "KafkaSink": lambda: ps.io.KafkaSink(f"me:{SECRET}@h:1", "t", options={"sasl.password": SECRET}),
    "PostgresSink": lambda: ps.io.PostgresSink(f"postgresql://me:{SECRET}@h/x"),
    "storage_at": lambda: storage_at(f"s3:/me:{SECRET} x@h/x"),
    "storage_at with options": lambda: storage_at(f"nope://me:{SECRET} x@h/x"),
    "read_changes": lambda: ps.read_changes(f"memory://me:{SECRET} x@h/x", "n"),
}


@pytest.mark.parametrize("what", MADE)
def test_nothing_made_with_an_address_shows_its_secret(what: str, caplog: pytest.LogCaptureFixture) -> None:
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG):
        try:
            made = MADE[what]()
        except PointstampError as error:
            shown += _chain(error)
        else:
            shown += [repr(made), str(made)]
            shown.append(made.describe() if hasattr(made, "describe") else "")
    assert shown
    assert SECRET not in "\n".join((*shown, caplog.text))


def _chain(error: BaseException | None) -> list[str]:
    """Everything that a traceback prints of an error."""
    told = []
    while error is not None:
        told += [str(error), repr(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return told


@given(passwords, st.sampled_from(["postgresql://me:{}@h/x", "password={} host=h", "host=h sslpassword={}"]))
@example(f"{SECRET}%a1", "postgresql://me:{}@h/x")
def test_a_connection_string_is_parsed_or_rejected_without_its_secret(password: str, form: str) -> None:
    conninfo = form.format(password)
    with pytest.raises(PointstampError, match=r"PostgresSink: |rejected a statement") as found:
        Database(conninfo, _refused).transaction().__enter__()
    assert SECRET not in "".join(_chain(found.value))


def _refused(conninfo: str) -> NoReturn:
    """A server that quotes all that it was given."""
    import psycopg

    raise psycopg.OperationalError(f"connection failed: {connection_options(conninfo)}")


def test_a_storage_shows_its_address_without_the_secret_and_opens_by_the_whole() -> None:
    storage = storage_at(f"memory://me:{SECRET}@h/x")
    assert isinstance(storage, FsspecStorage)
    assert (storage.address, url_of(storage)) == ("memory://***@h/x", f"memory://me:{SECRET}@h/x")


def test_a_cause_that_quotes_a_secret_is_not_chained() -> None:
    address = f"ftp://me:{SECRET}/a@h"
    assert harmless(ValueError(f"port {SECRET}"), address) is None
    assert isinstance(harmless(ValueError("no route"), address), ValueError)


# Identities.


@given(passwords, passwords)
def test_an_identity_does_not_depend_on_the_password_where_the_address_is_well_formed(a: str, b: str) -> None:
    from urllib.parse import quote

    one, other = (identity(f"sftp://me:{quote(each, safe='')}@h/in@2") for each in (a, b))
    assert one.startswith("sftp://***@")
    assert SECRET not in one + other
    assert identity(f"sftp://me:{quote(a, safe='')}@h/in") == identity(f"sftp://me:{quote(b, safe='')}@h/in")


@given(st.text("ab@:/=", max_size=8), st.text("ab@:/=", max_size=8))
def test_identities_of_different_paths_are_different(one: str, other: str) -> None:
    for before in ("sftp://me:x@h/", "s3://bucket/", "http://h:80/", "/", ""):
        if one != other:
            assert identity(f"{before}{one}") != identity(f"{before}{other}")
