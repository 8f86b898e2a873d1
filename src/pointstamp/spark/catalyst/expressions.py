"""Expressions: trees of Catalyst as expressions of ours, with Spark's types and semantics.

``ExpressionTranslator`` finds for each class of Catalyst what it is here: arithmetic, comparison, casts,
branches and structs in ``scalar_operators``, functions that have a name in SQL in ``scalar_functions``, and
those on lists and maps, with lambda functions, in ``nested_functions``. A class that is not there, and one
whose meaning the tree does not say, is rejected with its name.

Catalyst has inserted all casts before, so types are found, and never guessed. Arithmetic and casts carry
their evaluation mode (ANSI, LEGACY or TRY), which ``omissions`` has read from the plan.
"""

from collections.abc import Mapping
from typing import ClassVar

from pointstamp.spark.catalyst.expression_context import ExpressionContext, Handler
from pointstamp.spark.catalyst.nested_functions import NESTED_FUNCTIONS
from pointstamp.spark.catalyst.scalar_functions import FUNCTIONS
from pointstamp.spark.catalyst.scalar_operators import OPERATORS


class ExpressionTranslator(ExpressionContext):
    """Translates expressions over attributes of Catalyst, which have names of columns here.

    ``translate`` returns the expression that a tree means.
    """

    handlers: ClassVar[Mapping[str, Handler]] = {**OPERATORS, **FUNCTIONS, **NESTED_FUNCTIONS}
