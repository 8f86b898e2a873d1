"""The site of `make docs`: it builds without a warning, has every page, and needs no other host."""

import json
import re
import subprocess
import sys
from inspect import isclass, isfunction
from pathlib import Path

import pytest

import pointstamp

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site") / "dev"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_every_page_of_docs_is_a_page_of_the_site(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 60
    for page in pages:
        place = page.parent if page.stem == "index" else page.with_suffix("")
        assert (site / place / "index.html").exists(), page


def test_the_first_page_is_the_readme(site: Path) -> None:
    assert "Incremental and recursive views on the Spark you already run" in (site / "index.html").read_text()


def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = list((site / "reference" / "python").rglob("index.html"))
    headings = {
        name for page in pages for name in re.findall(r'id="pointstamp\.[\w.]*?(\w+)"', page.read_text())
    }
    modules = (pointstamp.io, pointstamp.timely, pointstamp.ports, pointstamp.status)
    documented = {
        name
        for module in modules
        for name in module.__all__
        if isclass(getattr(module, name)) or isfunction(getattr(module, name))
    }
    assert len(documented) > 50
    assert set(pointstamp._HOMES) | documented <= headings


def test_the_options_on_the_page_of_configuration_have_a_meaning(site: Path) -> None:
    page = (site / "reference" / "configuration" / "index.html").read_text()
    rows = re.findall(r"<tr>\s*<td>(.*?)</td>\s*<td>(.*?)</td>\s*<td>(.*?)</td>", page, re.DOTALL)
    assert len(rows) > 120
    assert [name for name, _, meaning in rows if not meaning.strip()] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert loaded == [], page


def test_the_versions_are_listed_for_the_selector_and_the_pages_for_language_models(site: Path) -> None:
    (listed,) = json.loads((site.parent / "versions.json").read_text())
    assert listed == {"version": "dev", "title": "dev", "aliases": ["latest"]}
    assert "url=dev/" in (site.parent / "index.html").read_text()
    brief = (site / "llms.txt").read_text()
    addresses = re.findall(r"\]\(https://[^/]*/pointstamp/([^)]*)\)", brief)
    assert len(addresses) > 60
    for address in addresses:
        assert (site / address / "index.html").exists(), address
