"""A link from Spark's UI to the dashboard of a query.

Spark shows the description of a job as text, with links in it only if they are relative to its own UI. So
the description of a query's job links to a path of Spark's UI, and that path sends the browser on to the
dashboard. Whoever may open Spark's UI may follow it: Spark's own filters and access lists are before it.
Where there is no UI, or no Java behind the session (Spark Connect), there is no link.
"""

from html import escape
from typing import Any, Final

from pyspark.sql import SparkSession

from pointstamp.spark.slots import is_connect

_DEFAULT: Final = "createRedirectHandler$default$"
"""What Scala calls the default of an argument, before its number."""


class UiLink:
    """The link of one query; it leads to the dashboard that was opened last."""

    def __init__(self, spark: SparkSession, query_id: str) -> None:
        self._spark = spark
        self._handler: Any = None
        self.path = f"/pointstamp/{query_id}"

    def lead_to(self, address: str) -> str | None:
        """Let the path lead to a dashboard; the path's whole address, or None where Spark has no UI."""
        if is_connect(self._spark):
            return None
        context: Any = self._spark.sparkContext
        try:
            found = context._jsc.sc().ui()  # noqa: SLF001 - the one way to Spark's own objects
            if found.isEmpty():
                return None
            ui, utils = found.get(), context._jvm.org.apache.spark.ui.JettyUtils  # noqa: SLF001
            defaults = [getattr(utils, f"{_DEFAULT}{number}")() for number in (3, 4, 5, 6)]
            handler = utils.createRedirectHandler(self.path, address, *defaults)
            if self._handler is not None:
                ui.detachHandler(self._handler)
            ui.attachHandler(handler)
            self._handler = handler
            return f"{ui.webUrl()}{self.path}/"
        except Exception:  # py4j's errors say only that another Spark names it otherwise
            return None


def job_description(flow: str, generation: int | None, link: UiLink | None) -> str:
    """What Spark's UI says of the job of a crew; a spare one has no generation yet.

    >>> job_description("a < b", 2, None)
    "pointstamp: flow 'a &lt; b', generation 2"
    """
    which = "a spare crew" if generation is None else f"generation {generation}"
    words = f"pointstamp: flow '{escape(flow, quote=False)}', {which}"
    return words if link is None else f'{words}, <a href="{escape(link.path)}/">dashboard</a>'


def run_description(flow: str, workers: int) -> str:
    """What Spark's UI says of the job of a bounded run.

    >>> run_description("a < b", 2)
    "pointstamp: flow 'a &lt; b', 2 workers"
    """
    return f"pointstamp: flow '{escape(flow, quote=False)}', {workers} worker{'s' if workers > 1 else ''}"
