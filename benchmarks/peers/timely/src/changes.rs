//! Changes into a table of many keys: the number and the sum of the rows of each key that changed, by
//! differential dataflow's `count_total`. With `deletes=1` keys are drawn, and half of a change takes rows
//! away; otherwise each key is there once at the beginning, and a change only adds rows.

use crate::measure::{report, timed, Dice, Sizes, Taken};
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::CountTotal;
use differential_dataflow::hashable::Hashable;
use differential_dataflow::ExchangeData;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

type Sums<K> = HashMap<K, (isize, isize)>;

pub fn integers(worker: &mut Worker, sizes: &Sizes) {
    changes(worker, sizes, "changes-integers", |key| key);
}

pub fn strings(worker: &mut Worker, sizes: &Sizes) {
    changes(worker, sizes, "changes-strings", |key| format!("key-{key}"));
}

fn changes<K: ExchangeData + Hashable + Hash>(
    worker: &mut Worker,
    sizes: &Sizes,
    case: &str,
    key_of: impl Fn(u64) -> K,
) {
    let (number, change_rows, deletes) = (sizes.get("rows"), sizes.get("change"), sizes.get("deletes") == 1);
    let mut dice = Dice(1);
    let mut drawn = || (key_of(dice.below(number as u64)), dice.below(1 << 40) as isize);
    let mut rows: Vec<(K, isize)> = (0..number)
        .map(|key| if deletes { drawn() } else { (key_of(key as u64), 1) })
        .collect();
    let first = rows.clone();
    let mut places = Dice(2);
    let changes: Vec<Vec<(K, (isize, isize))>> = (0..sizes.get("epochs"))
        .map(|_| {
            let mut change = Vec::new();
            while change.len() < change_rows {
                if !deletes {
                    rows.push(drawn());
                    let (key, value) = rows[rows.len() - 1].clone();
                    change.push((key, (1, value)));
                    continue;
                }
                let place = places.below(number as u64) as usize;
                let (key, value) = std::mem::replace(&mut rows[place], drawn());
                change.push((key, (-1, -value)));
                change.push((rows[place].0.clone(), (1, rows[place].1)));
            }
            change
        })
        .collect();
    let results: Rc<RefCell<Vec<(K, (isize, isize), isize)>>> = Default::default();
    let seen = results.clone();
    let mut input = InputSession::<u64, K, (isize, isize)>::new();
    let probe = ProbeHandle::new();
    worker.dataflow::<u64, _, _>(|scope| {
        input
            .to_collection(scope)
            .count_total()
            .inspect_batch(move |_, rows| {
                let all = rows.iter().map(|((key, sum), _, weight)| (key.clone(), *sum, *weight));
                seen.borrow_mut().extend(all);
            })
            .probe_with(&probe);
    });
    let mut found = Sums::new();
    let mut epoch = |next: u64, change: Vec<(K, (isize, isize))>| {
        let seconds = timed(|| {
            change.into_iter().for_each(|(key, weight)| input.update(key, weight));
            input.advance_to(next);
            input.flush();
            while probe.less_than(&next) {
                worker.step();
            }
        });
        let mut told = results.borrow_mut();
        told.sort_by_key(|(_, _, weight)| *weight); // what goes before what comes
        for (key, sum, weight) in told.drain(..) {
            if weight > 0 {
                found.insert(key, sum);
            } else {
                assert_eq!(found.remove(&key), Some(sum), "what goes was not there");
            }
        }
        seconds
    };
    epoch(1, first.into_iter().map(|(key, value)| (key, (1, value))).collect());
    let mut coming = changes.into_iter();
    let taken = Taken::of(sizes.get("epochs"), |number| {
        epoch(number as u64 + 2, coming.next().expect("a change for each epoch"))
    });
    let mut wanted = Sums::new();
    for (key, value) in rows {
        let (count, sum) = wanted.entry(key).or_default();
        *count += 1;
        *sum += value;
    }
    assert!(found == wanted, "the sums are wrong");
    report(worker, case, &[taken], 1.0);
}
