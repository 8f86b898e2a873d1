"""All functions of columns: expressions, aggregates and window functions.

    from pointstamp import functions as F
    orders.with_columns(city=F.upper("city")).group_by("city").agg(total=F.sum("price"))

The names are PySpark's, in snake_case. Where an expression is expected, text is the name of a column.
"""

from pointstamp.expressions.functions import *  # noqa: F403 - all of them
from pointstamp.expressions.tree import col as col
from pointstamp.expressions.tree import lit as lit
from pointstamp.expressions.tree import when as when
from pointstamp.reduce.aggregate import Aggregate as Aggregate
from pointstamp.reduce.aggregate import FunctionAggregate as FunctionAggregate
from pointstamp.reduce.asking import aggregate as aggregate
from pointstamp.reduce.asking import bool_and as bool_and
from pointstamp.reduce.asking import bool_or as bool_or
from pointstamp.reduce.asking import collect_list as collect_list
from pointstamp.reduce.asking import collect_set as collect_set
from pointstamp.reduce.asking import count as count
from pointstamp.reduce.asking import count_distinct as count_distinct
from pointstamp.reduce.asking import first as first
from pointstamp.reduce.asking import last as last
from pointstamp.reduce.asking import max as max  # noqa: A004 - SQL's word
from pointstamp.reduce.asking import max_by as max_by
from pointstamp.reduce.asking import mean as mean
from pointstamp.reduce.asking import median as median
from pointstamp.reduce.asking import min as min  # noqa: A004 - SQL's word
from pointstamp.reduce.asking import min_by as min_by
from pointstamp.reduce.asking import quantile as quantile
from pointstamp.reduce.asking import stddev as stddev
from pointstamp.reduce.asking import stddev_pop as stddev_pop
from pointstamp.reduce.asking import stddev_samp as stddev_samp
from pointstamp.reduce.asking import sum as sum  # noqa: A004 - SQL's word
from pointstamp.reduce.asking import var_pop as var_pop
from pointstamp.reduce.asking import var_samp as var_samp
from pointstamp.reduce.asking import variance as variance
from pointstamp.reduce.over import WindowExpression as WindowExpression
from pointstamp.tables.in_order import OrderFunction as OrderFunction
from pointstamp.tables.in_order import dense_rank as dense_rank
from pointstamp.tables.in_order import first_value as first_value
from pointstamp.tables.in_order import lag as lag
from pointstamp.tables.in_order import last_value as last_value
from pointstamp.tables.in_order import lead as lead
from pointstamp.tables.in_order import rank as rank
from pointstamp.tables.in_order import row_number as row_number
