//! Rows of 8 bytes that each worker makes, exchanged by key and counted where they arrive.

use crate::measure::{report, timed, Sizes, Taken, Waiting};
use std::cell::Cell;
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::vec::Input;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{InputHandleVec, ProbeHandle};
use timely::worker::Worker;

/// What the operator sends: no row at all.
type Nothing = CapacityContainerBuilder<Vec<u64>>;

const EPOCHS: usize = 4;
const CHUNK: usize = 8_192;

pub fn run(worker: &mut Worker, sizes: &Sizes) {
    let (rows, batches, peers) = (sizes.get("rows"), sizes.get("batches"), worker.peers());
    let mut ways = Vec::new();
    for waiting in Waiting::ways(worker) {
        let counted = Rc::new(Cell::new((0_u64, 0_u64)));
        let counts = counted.clone();
        let mut input = InputHandleVec::new();
        let probe = ProbeHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            Input::input_from(&scope, &mut input)
                .unary::<Nothing, _, _, _>(Exchange::new(|key: &u64| *key), "count", |_, _| {
                    move |input, _| {
                        input.for_each_time(|_, data| {
                            let (mut number, mut sum) = counts.get();
                            for keys in data {
                                number += keys.len() as u64;
                                sum += keys.iter().sum::<u64>();
                            }
                            counts.set((number, sum));
                        })
                    }
                })
                .probe_with(&probe);
        });
        let keys: Vec<u64> = (0..rows as u64).collect();
        let mut taken = Taken::of(EPOCHS, |epoch| {
            let next = epoch as u64 + 1;
            timed(|| {
                for _ in 0..batches {
                    for chunk in keys.chunks(CHUNK) {
                        input.send_batch(&mut chunk.to_vec());
                    }
                    worker.step();
                }
                input.advance_to(next);
                waiting.step_while(worker, || probe.less_than(&next));
            })
        });
        taken.each.remove(0); // the first one warms up
        taken.each.sort_by(f64::total_cmp);
        taken.each.truncate(1); // the best, as of ours
        taken.processor /= EPOCHS as f64;
        ways.push(taken);
        let (number, sum) = counted.get();
        let own = (0..rows as u64).filter(|key| *key as usize % peers == worker.index());
        let times = (peers * batches * EPOCHS) as u64;
        assert_eq!((number, sum), (own.clone().count() as u64 * times, own.sum::<u64>() * times));
        drop(input);
        while !probe.done() {
            worker.step();
        }
    }
    report(worker, "exchange", &ways, (rows * batches * peers) as f64);
}
