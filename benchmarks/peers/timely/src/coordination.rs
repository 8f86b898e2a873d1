//! What coordination costs alone: empty epochs, and empty rounds of a loop. No rows move.

use crate::measure::{report, timed, Sizes, Taken, Waiting};
use std::cell::Cell;
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::vec::Input;
use timely::dataflow::operators::{ConnectLoop, Feedback, Operator, Probe};
use timely::dataflow::{InputHandleVec, ProbeHandle};
use timely::worker::Worker;

const PARTS: usize = 5;

/// An input and a probe: each epoch is complete everywhere before the next begins.
pub fn epochs(worker: &mut Worker, sizes: &Sizes) {
    let number = sizes.get("epochs");
    let mut ways = Vec::new();
    for waiting in Waiting::ways(worker) {
        let mut input = InputHandleVec::<u64, u64>::new();
        let probe = ProbeHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            Input::input_from(&scope, &mut input).probe_with(&probe);
        });
        let mut next = 0;
        ways.push(Taken::of(PARTS, |_| {
            timed(|| {
                for _ in 0..number {
                    next += 1;
                    input.advance_to(next);
                    waiting.step_while(worker, || probe.less_than(&next));
                }
            })
        }));
        assert!(!probe.less_than(&((PARTS * number) as u64)) && probe.less_equal(&next), "an epoch is not done");
        drop(input);
        while !probe.done() {
            worker.step();
        }
    }
    report(worker, "empty-epochs", &ways, number as f64);
}

/// The barrier of timely's own examples: an operator asks for the next round whenever it is notified of one.
pub fn rounds(worker: &mut Worker, sizes: &Sizes) {
    let number = sizes.get("rounds");
    let mut ways = Vec::new();
    for waiting in Waiting::ways(worker) {
        ways.push(Taken::of(PARTS, |_| {
            let seen = Rc::new(Cell::new(0));
            let counted = seen.clone();
            worker.dataflow::<usize, _, _>(move |scope| {
                let (handle, stream) = scope.feedback::<Vec<usize>>(1);
                stream
                    .unary_notify::<CapacityContainerBuilder<_>, _, _>(
                        Pipeline,
                        "barrier",
                        vec![0],
                        move |_, _, notificator| {
                            while let Some((capability, _)) = notificator.next() {
                                counted.set(counted.get() + 1);
                                let next = *capability.time() + 1;
                                if next < number {
                                    notificator.notify_at(capability.delayed(&next));
                                }
                            }
                        },
                    )
                    .connect_loop(handle);
            });
            let seconds = timed(|| waiting.step_while(worker, || seen.get() < number));
            assert_eq!(seen.get(), number, "rounds are missing");
            while worker.has_dataflows() {
                worker.step();
            }
            seconds
        }));
    }
    report(worker, "empty-rounds", &ways, number as f64);
}
