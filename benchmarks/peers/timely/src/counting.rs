//! A running count by key: the counts that an epoch changed, when the epoch is complete.
//!
//! Each worker sends its share of every epoch, and sees the counts of the keys that are its own.

use crate::measure::{report, timed, Dice, Sizes, Taken, Waiting};
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::CountTotal;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::vec::Input;
use timely::dataflow::operators::{Inspect, Operator, Probe};
use timely::dataflow::{InputHandleVec, ProbeHandle};
use timely::worker::Worker;

type Counted = Rc<RefCell<Vec<(u64, u64)>>>;

const CHUNK: usize = 8_192;

/// Keys are spread by a multiplication, which is the fastest that is good enough for whole numbers.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are whole numbers");
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

#[derive(Default)]
struct Counts {
    counts: HashMap<u64, (u64, u64), BuildHasherDefault<Spread>>,
    changed: Vec<u64>,
}

impl Counts {
    fn add(&mut self, rows: &[u64], stamp: u64) {
        for &key in rows {
            let (count, last) = self.counts.entry(key).or_insert((0, 0));
            *count += 1;
            if *last != stamp {
                *last = stamp;
                self.changed.push(key);
            }
        }
    }
}

/// The rows of one worker, epoch by epoch.
fn rows_of(index: usize, peers: usize, epochs: usize, rows: usize, keys: u64) -> Vec<Vec<u64>> {
    let mut dice = Dice(index as u64);
    (0..epochs).map(|_| (0..rows / peers).map(|_| dice.below(keys)).collect()).collect()
}

/// Panic unless the newest count of each key of this worker is how often all workers sent it.
fn check(worker: &Worker, found: &HashMap<u64, u64>, sizes: &Sizes) {
    let (epochs, rows, keys) = (sizes.get("epochs"), sizes.get("rows"), sizes.get("keys") as u64);
    let mut wanted: HashMap<u64, u64> = HashMap::new();
    for index in 0..worker.peers() {
        for key in rows_of(index, worker.peers(), epochs, rows, keys).into_iter().flatten() {
            *wanted.entry(key).or_default() += 1;
        }
    }
    let own: u64 = found.values().sum();
    let all: u64 = wanted.values().sum();
    assert!(found.iter().all(|(key, count)| wanted[key] == *count), "a count is wrong");
    assert!(worker.peers() > 1 || found.len() == wanted.len(), "a key is missing");
    assert!(worker.peers() == 1 || (own > all / 4 && own < all - all / 4), "the keys are not shared");
}

/// Run the case with one engine: `open` makes a flow and gives what sends one epoch and says that it is done.
fn measured<I>(
    worker: &mut Worker,
    sizes: &Sizes,
    case: &str,
    open: impl Fn(&mut Worker, Counted) -> (I, ProbeHandle<u64>),
    send: impl Fn(&mut I, Vec<Vec<u64>>, u64),
) {
    let (epochs, rows, keys) = (sizes.get("epochs"), sizes.get("rows"), sizes.get("keys") as u64);
    let given = rows_of(worker.index(), worker.peers(), epochs, rows, keys);
    let mut ways = Vec::new();
    for waiting in Waiting::ways(worker) {
        let mut all = Taken { each: Vec::new(), processor: 0.0 };
        for _ in 0..sizes.get("repeated") {
            let results: Counted = Default::default();
            let (mut input, probe) = open(worker, results.clone());
            let mut found = HashMap::new();
            let mut chunks: Vec<Vec<Vec<u64>>> =
                given.iter().map(|rows| rows.chunks(CHUNK).map(<[u64]>::to_vec).collect()).collect();
            let taken = Taken::of(epochs, |epoch| {
                let next = epoch as u64 + 1;
                let mine = std::mem::take(&mut chunks[epoch]);
                let seconds = timed(|| {
                    send(&mut input, mine, next);
                    waiting.step_while(worker, || probe.less_than(&next));
                });
                found.extend(results.borrow_mut().drain(..));
                seconds
            });
            all.each.extend(taken.each);
            all.processor += taken.processor;
            drop(input);
            check(worker, &found, sizes);
            while !probe.done() {
                worker.step();
            }
        }
        ways.push(all);
    }
    report(worker, case, &ways, 1.0);
}

/// An operator of timely's with a hash table.
pub fn by_timely(worker: &mut Worker, sizes: &Sizes) {
    measured(
        worker,
        sizes,
        "count-timely",
        |worker, results| {
            let mut input = InputHandleVec::new();
            let probe = ProbeHandle::new();
            worker.dataflow::<u64, _, _>(|scope| {
                Input::input_from(&scope, &mut input)
                    .unary_frontier(Exchange::new(|key: &u64| *key), "count", |_, _| {
                        let mut state = Counts::default();
                        let mut waiting = BTreeMap::new();
                        move |(input, frontier), output| {
                            input.for_each_time(|time, data| {
                                let stamp = *time.time() + 1;
                                let (_, early) = waiting
                                    .entry(*time.time())
                                    .or_insert_with(|| (time.retain(output.output_index()), Vec::new()));
                                for rows in data {
                                    if frontier.less_than(time.time()) {
                                        early.push(std::mem::take(rows));
                                    } else {
                                        state.add(rows, stamp);
                                    }
                                }
                            });
                            while let Some(entry) = waiting.first_entry() {
                                if frontier.less_equal(entry.key()) {
                                    break;
                                }
                                let (time, (capability, early)) = entry.remove_entry();
                                for rows in early {
                                    state.add(&rows, time + 1);
                                }
                                let mut session = output.session(&capability);
                                for key in state.changed.drain(..) {
                                    session.give((key, state.counts[&key].0));
                                }
                            }
                        }
                    })
                    .container::<Vec<_>>()
                    .inspect_batch(move |_, rows| results.borrow_mut().extend_from_slice(rows))
                    .probe_with(&probe);
            });
            (input, probe)
        },
        |input, chunks, next| {
            for mut chunk in chunks {
                input.send_batch(&mut chunk);
            }
            input.advance_to(next);
        },
    );
}

/// The `count_total` of differential dataflow.
pub fn by_differential(worker: &mut Worker, sizes: &Sizes) {
    measured(
        worker,
        sizes,
        "count-differential",
        |worker, results| {
            let mut input = InputSession::<u64, u64, isize>::new();
            let probe = ProbeHandle::new();
            worker.dataflow::<u64, _, _>(|scope| {
                input
                    .to_collection(scope)
                    .count_total()
                    .inspect_batch(move |_, rows| {
                        let there = rows.iter().filter(|(_, _, weight)| *weight > 0);
                        results.borrow_mut().extend(there.map(|((key, count), _, _)| (*key, *count as u64)));
                    })
                    .probe_with(&probe);
            });
            (input, probe)
        },
        |input, chunks, next| {
            for key in chunks.into_iter().flatten() {
                input.insert(key);
            }
            input.advance_to(next);
            input.flush();
        },
    );
}
