"""What holds an output back, as places with words and ways: what the dashboard lights up.

The kinds look different on the page: an *input* that may still send, a capability that an operator has
*held*, messages that wait (*backlog*), and messages that go round (*loop*).
"""

from typing import Final

from pointstamp.dashboard.drawn import without_doors
from pointstamp.dashboard.sight import Json
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import Holder, holders
from pointstamp.running.places import Place, place_words, places_of
from pointstamp.topology.ports import Location, Target

_PLACES_MAX: Final = 12


def held_by(plan: Plan, tracker: Tracker, output: str) -> list[Json]:
    """The places that hold an output back, the farthest upstream first; none if it is complete."""
    port = Target(plan.named(NodeKind.OUTPUT)[output].index, 0)
    found = sorted(holders(tracker, port), key=lambda each: -len(each.path))
    first: dict[Location, Holder] = {}
    for holder in found:
        first.setdefault(holder.pointstamp.location, holder)
    places = places_of(tracker.graph, ((each.pointstamp, each.count) for each in found))
    return [_held(plan, tracker, place, first[place.location]) for place in places[:_PLACES_MAX]]


def _held(plan: Plan, tracker: Tracker, place: Place, holder: Holder) -> Json:
    port = tracker.graph.ports[place.location]
    node = plan.nodes[port.operator]
    if isinstance(port, Target):
        kind = "loop" if node.scope else "backlog"
    else:
        kind = "input" if node.kind is NodeKind.INPUT else "held"
    return {
        "kind": kind,
        "operator": None if node.kind.is_door else node.index,
        "time": list(place.first),
        "count": place.count,
        "words": place_words(plan, tracker.graph, place),
        "way": without_doors(plan, (each.operator for each in holder.path)),
    }
