"""``python -m examples.nexmark q5``: run a query and print what it found, epoch by epoch."""

import argparse

from examples.nexmark import queries
from examples.nexmark.events import Site, side_input
from examples.nexmark.flows import flow_of, inputs_of

SHOWN = 3
"""How many rows of an epoch are printed."""


def main() -> None:
    """Run the query that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m examples.nexmark", description="Run a query of Nexmark.")
    parser.add_argument("query", choices=[f"q{number}" for number in range(23)])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    query = getattr(queries, given.query)
    made = Site(given.seed).epochs(given.events, given.epochs)
    made["side_input"] = [side_input()]
    inputs = {name: made[name] for name in inputs_of(query)}
    for epoch, tables in flow_of(query).stream(inputs, workers=given.workers):
        found = tables["result"]
        print(f"epoch {epoch}: {found.num_rows} rows")
        for row in found.slice(0, SHOWN).to_pylist():
            print(f"  {row}")


if __name__ == "__main__":
    main()
