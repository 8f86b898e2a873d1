"""docs/dataframes.md says what there is: its examples print what it says."""

import contextlib
import io
import re
from pathlib import Path

from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[3] / "docs" / "dataframes.md").read_text()


def test_the_examples_print_what_the_page_says(spark: SparkSession) -> None:
    found = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(found) == 2
    names: dict[str, object] = {"spark": spark}
    for code, wanted in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102 - our own page
        assert printed.getvalue() == wanted
