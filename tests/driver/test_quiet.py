"""Quiet: whether nothing is left to do is never concluded too early, and always at last.

One family, *waves*: a small world of workers, of which some have something to do and some messages are on
their way, answers questions at moments of its own choosing. Only it can find a conclusion that a run of real
processes would reach once in a thousand times.
"""

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.driver.processes import Quiet


def test_one_balanced_wave_is_not_enough() -> None:
    quiet = Quiet(2)
    wave = quiet.ask()
    # Worker 0 answers; then worker 1 sends to it, gets something back, and answers last.
    assert not quiet.answer(wave, 0, 0, 0, is_complete=False)
    assert quiet.answer(wave, 1, 1, 1, is_complete=False), "balanced: ask again"
    assert not quiet.is_reached
    wave = quiet.ask()
    quiet.answer(wave, 0, 1, 1, is_complete=False)
    quiet.answer(wave, 1, 1, 1, is_complete=False)
    assert not quiet.is_reached, "balanced again, and with other totals"


def test_an_order_makes_what_was_found_out_void() -> None:
    quiet = Quiet(1)
    assert quiet.answer(quiet.ask(), 0, 5, 5, is_complete=True)
    quiet.disturb()
    assert quiet.answer(quiet.ask(), 0, 5, 5, is_complete=True)
    assert not quiet.is_reached
    quiet.answer(quiet.ask(), 0, 5, 5, is_complete=True)
    assert (quiet.is_reached, quiet.is_complete) == (True, True)
    quiet.disturb()
    assert not quiet.is_reached


@given(st.data(), st.integers(1, 4), st.integers(0, 12))
def test_quiet_is_reached_exactly_when_no_work_and_no_message_is_left(
    data: st.DataObject, workers: int, work: int
) -> None:
    """Each unit of work, when done, may send a message, which is a unit of work where it arrives."""
    waiting = [0] * workers
    for _ in range(work):
        waiting[data.draw(st.integers(0, workers - 1))] += 1
    on_the_way: list[int] = []
    sent, received = [0] * workers, [0] * workers
    quiet = Quiet(workers)
    unanswered: set[int] = set()
    wave, messages_left = 0, 10
    while not quiet.is_reached:
        choices = [("work", w) for w in range(workers) if waiting[w]]
        choices += [("deliver", number) for number in range(len(on_the_way))]
        choices += [("answer", w) for w in sorted(unanswered) if not waiting[w]]
        if not unanswered:
            choices.append(("ask", 0))
        act, which = data.draw(st.sampled_from(choices))
        if act == "ask":
            wave, unanswered = quiet.ask(), set(range(workers))
        elif act == "answer":
            unanswered.discard(which)
            quiet.answer(wave, which, sent[which], received[which], is_complete=False)
        elif act == "deliver":
            receiver = on_the_way.pop(which)
            received[receiver] += 1
            waiting[receiver] += 1
        else:
            waiting[which] -= 1
            if messages_left and data.draw(st.booleans()):
                messages_left -= 1
                sent[which] += 1
                on_the_way.append(data.draw(st.integers(0, workers - 1)))
    assert not on_the_way
    assert not any(waiting)
