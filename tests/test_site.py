"""The site of `make docs`: it builds without a warning, has every page, and needs no other host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pointstamp

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_every_page_of_docs_is_a_page_of_the_site(site: Path) -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    assert pages
    for page in pages:
        assert (site / page.stem / "index.html").exists(), page.name


def test_the_first_page_is_the_readme(site: Path) -> None:
    assert "Timely dataflow for Apache Spark, in Python" in (site / "index.html").read_text()


def test_the_reference_has_every_public_name(site: Path) -> None:
    headings = set(
        re.findall(r'id="pointstamp\.[\w.]*?(\w+)"', (site / "reference" / "index.html").read_text())
    )
    assert set(pointstamp._HOMES) <= headings


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert loaded == [], page
