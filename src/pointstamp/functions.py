"""All functions of columns: expressions, aggregates and window functions.

    from pointstamp import functions as F
    orders.with_columns(city=F.upper("city")).group_by("city").agg(total=F.sum("price"))

The names are PySpark's, in snake_case. Where an expression is expected, text is the name of a column.
"""

from pointstamp.expressions.functions import *  # noqa: F403 - all of them
from pointstamp.expressions.tree import col as col
from pointstamp.expressions.tree import lit as lit
from pointstamp.expressions.tree import when as when
from pointstamp.incremental.window_functions import OrderFunction as OrderFunction
from pointstamp.incremental.window_functions import dense_rank as dense_rank
from pointstamp.incremental.window_functions import first_value as first_value
from pointstamp.incremental.window_functions import lag as lag
from pointstamp.incremental.window_functions import last_value as last_value
from pointstamp.incremental.window_functions import lead as lead
from pointstamp.incremental.window_functions import rank as rank
from pointstamp.incremental.window_functions import row_number as row_number
from pointstamp.reduce.aggregate import Aggregate as Aggregate
from pointstamp.reduce.aggregate import FunctionAggregate as FunctionAggregate
from pointstamp.reduce.constructors import aggregate as aggregate
from pointstamp.reduce.constructors import bool_and as bool_and
from pointstamp.reduce.constructors import bool_or as bool_or
from pointstamp.reduce.constructors import collect_list as collect_list
from pointstamp.reduce.constructors import collect_set as collect_set
from pointstamp.reduce.constructors import count as count
from pointstamp.reduce.constructors import count_distinct as count_distinct
from pointstamp.reduce.constructors import first as first
from pointstamp.reduce.constructors import last as last
from pointstamp.reduce.constructors import max as max  # noqa: A004 - SQL's word
from pointstamp.reduce.constructors import max_by as max_by
from pointstamp.reduce.constructors import mean as mean
from pointstamp.reduce.constructors import median as median
from pointstamp.reduce.constructors import min as min  # noqa: A004 - SQL's word
from pointstamp.reduce.constructors import min_by as min_by
from pointstamp.reduce.constructors import quantile as quantile
from pointstamp.reduce.constructors import stddev as stddev
from pointstamp.reduce.constructors import stddev_pop as stddev_pop
from pointstamp.reduce.constructors import stddev_samp as stddev_samp
from pointstamp.reduce.constructors import sum as sum  # noqa: A004 - SQL's word
from pointstamp.reduce.constructors import var_pop as var_pop
from pointstamp.reduce.constructors import var_samp as var_samp
from pointstamp.reduce.constructors import variance as variance
from pointstamp.reduce.over import WindowExpression as WindowExpression
