"""The kinds of joins, which streams and tables have alike."""

from typing import Literal, TypeAlias

How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
"""Which rows without a partner come out; semi and anti give rows of the left side only, cross all pairs."""
