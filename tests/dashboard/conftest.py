"""One browser for all tests of the page, which looks at what was asked for after each."""

from collections.abc import Iterator

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from support.browsers import chromium, console, requests, resize


@pytest.fixture(scope="session")
def shared() -> Iterator[WebDriver]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(shared: WebDriver) -> Iterator[WebDriver]:
    """The browser, with a page of 1,280 by 720; what it has asked for is looked at in the end."""
    resize(shared, 1280, 720)
    console(shared), requests(shared)
    yield shared
    asked = requests(shared)
    shared.get("about:blank")
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "about:"))] == []
