"""Further stores of the tests' own: Azurite for Azure's blobs, and fake-gcs-server for Google's storage.

Each is a process on a free port of loopback, got once by scripts/servers.py, and killed by its process id. It
yields the address of a bucket; how to reach it is in the environment, for this process and those it starts.
Where the tool that gets a server is missing, the test is skipped with a sentence.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import fsspec
import pytest
from fsspec.config import conf, set_conf_env

ROOT: Final = Path(__file__).parents[2]
SECONDS_MAX: Final = 120
LINES_MAX: Final = 200
# Azurite's account and key are the same everywhere, and in its manual.
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Azure's blobs: the address of a container."""
    own = ["--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", "0", "--skipApiVersionCheck"]
    with _served("azurite", "npm", own, r"listens on http://127\.0\.0\.1:(\d+)", folder) as port:
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        known = (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
        )
        with _told({"AZURE_STORAGE_CONNECTION_STRING": known, "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT}):
            fsspec.filesystem("abfs").mkdir("tests")
            yield "abfs://tests"


@contextmanager
def fake_gcs(folder: Path) -> Iterator[str]:
    """Google's storage: the address of a bucket."""
    with socket.socket() as free:  # it cannot say which one the system has chosen
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    place = f"127.0.0.1:{chosen}"
    own = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(chosen), "-backend", "memory"]
    own += ["-public-host", place, "-external-url", f"http://{place}"]
    with _served("fake-gcs-server", "go", own, rf"127\.0\.0\.1:({chosen})", folder) as port:
        told = {
            "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
            "FSSPEC_GS_TOKEN": "anon",
            "FSSPEC_GCS_TOKEN": "anon",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }
        with _told(told):
            fsspec.filesystem("gs").mkdir("tests")
            yield "gs://tests"


@contextmanager
def _served(name: str, tool: str, own: list[str], port: str, folder: Path) -> Iterator[str]:
    if not (ROOT / ".servers" / name).exists() and shutil.which(tool) is None:
        pytest.skip(f"{name} is got with {tool}, which is not here")
    got = subprocess.run(
        [sys.executable, str(ROOT / "scripts/servers.py"), name], capture_output=True, text=True
    )
    assert got.returncode == 0, got.stderr
    said = folder / "said.txt"
    with said.open("w") as out:
        process = subprocess.Popen([got.stdout.strip(), *own], cwd=folder, stdout=out, stderr=out)
    try:
        from support.streams import until

        until(lambda: re.search(port, said.read_text()) or process.poll() is not None, SECONDS_MAX)
        found = re.search(port, said.read_text())
        assert found, said.read_text()
        yield found[1]
    finally:
        process.kill()
        process.wait(SECONDS_MAX)


@contextmanager
def _told(environment: Mapping[str, str]) -> Iterator[None]:
    """Meanwhile the packages find this in the environment."""
    before = {name: os.environ.get(name) for name in environment}
    known = {name: dict(options) for name, options in conf.items()}
    os.environ.update(environment)
    set_conf_env(conf)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        conf.clear()
        conf.update(known)
        fsspec.AbstractFileSystem.clear_instance_cache()
