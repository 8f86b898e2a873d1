"""Torture: edges stream in while workers and executors are killed and stopped at random moments.

At the end every epoch must be published exactly once and be what an oracle says. Run it from the root:

    python -m tests.torture.run --seconds 180 --mode local-cluster

    python -m tests.torture.run --dynamic-allocation --losses 200 --seconds 7200

    python -m tests.torture.run --mode standalone --dynamic-allocation --shuffle-service --losses 20

It prints one line of JSON, and ends with 1 if a row was lost or came twice. The moments and victims follow
the seed; how far the machine is at such a moment does not.
"""

import argparse
import json
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path


def main() -> int:
    """Run the torture that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=180.0, help="how long edges stream in")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--mode", choices=["local-cluster", "standalone", "processes"], default="local-cluster"
    )
    parser.add_argument("--master", default="local-cluster[2,2,1024]", help="in mode local-cluster")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--spare-executors", action="store_true", help="hit only the workers in them")
    parser.add_argument("--dynamic-allocation", action="store_true", help="executors come and go")
    parser.add_argument(
        "--shuffle-service", action="store_true", help="in mode standalone, in place of shuffle tracking"
    )
    parser.add_argument("--losses", type=int, help="kill so many executors, and nothing else")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does for these folders
    from torture.story import torture

    with tempfile.TemporaryDirectory(prefix="torture-") as name, ExitStack() as opened:
        folder = Path(name)
        master = arguments.master if arguments.mode == "local-cluster" else None
        service, java_options = None, ""
        if arguments.mode == "standalone":
            from support.standalone import standalone  # pyspark is loaded where it is used

            if arguments.shuffle_service:
                with socket.create_server(("127.0.0.1", 0)) as free:
                    service = free.getsockname()[1]
                java_options = f"-Dspark.shuffle.service.enabled=true -Dspark.shuffle.service.port={service}"
            cluster = standalone(folder, cores=4, memory="2g", options=java_options)
            master = opened.enter_context(cluster)
        report = torture(
            folder,
            seconds=arguments.seconds,
            seed=arguments.seed,
            workers=arguments.workers,
            spare_executors=arguments.spare_executors,
            dynamic_allocation=arguments.dynamic_allocation,
            shuffle_service=service,
            losses=arguments.losses,
            master=master,
        )
    sys.stdout.write(json.dumps(report) + "\n")
    return 0 if report["lost"] == report["duplicated"] == 0 and report["rows"] else 1


if __name__ == "__main__":
    sys.exit(main())
