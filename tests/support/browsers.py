"""Chromium for tests: found on this machine, without a window, and bound to fail loudly where it is missing.

``chromium`` opens one; ``console`` and ``requests`` say what it has complained of, and what it has asked for.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

SECONDS_MAX: Final = 90.0
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


@contextmanager
def chromium() -> Iterator[WebDriver]:
    """A browser that takes down all that its pages ask for."""
    folder = os.environ.get("CHROMEWEBDRIVER", "")
    binary = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver") or shutil.which("chromedriver", path=folder)
    if binary is None or driver is None:
        pytest.fail(
            "these tests need Chromium and its driver, which were not found; run scripts/setup.sh "
            "--for-tests, or install them (Debian: apt-get install chromium chromium-driver)."
        )
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        browser.set_page_load_timeout(SECONDS_MAX)
        browser.set_script_timeout(SECONDS_MAX)
        yield browser
    finally:
        browser.quit()


def resize(browser: Any, width: int, height: int, *, dark: bool = False) -> None:  # noqa: ANN401 - Chrome's own
    """Let the page have exactly this size, and these colours."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [colours]})


def until(browser: WebDriver, wanted: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is waited for
    """Wait until something is true of the page, and return it."""
    return WebDriverWait(browser, SECONDS_MAX, poll_frequency=0.1).until(lambda _: wanted())


def texts(browser: WebDriver, selector: str) -> list[str]:
    """The texts of all elements that fit, as they are at one moment."""
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)", selector
    )
    return found


def click(browser: WebDriver, selector: str) -> None:
    """Click an element, as soon as it is there."""
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, selector))[0].click()


def console(browser: WebDriver) -> list[str]:
    """What the console has said since it was last asked."""
    return [f"{each['level']}: {each['message']}" for each in browser.get_log("browser")]  # type: ignore[attr-defined]


def quiet(browser: WebDriver) -> None:
    """Assert that the console has had nothing to complain of."""
    assert console(browser) == []


def requests(browser: WebDriver) -> list[str]:
    """The addresses that pages have asked for since it was last asked; what is part of a page is none."""
    events = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]  # type: ignore[attr-defined]
    urls = [
        each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if not url.startswith("data:")]
