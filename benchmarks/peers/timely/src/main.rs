//! The cases of benchmarks/peers by timely and differential dataflow.
//!
//!     peers CASE [NAME=NUMBER ...] [-- ARGUMENTS OF TIMELY]
//!
//! A case prints one JSON line, and that of components two: `seconds` is what one takes by the clock, the
//! median, and `processor_seconds` what one takes of the processor, on Linux. Each case checks its own answer,
//! and panics where it is wrong. With two processes each runs the same case, with timely's own
//! `-n 2 -p NUMBER -h FILE`, and the first of them prints the line.

mod changes;
mod components;
mod coordination;
mod counting;
mod exchange;
mod measure;

use measure::Sizes;
use timely::worker::Worker;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().expect("the first argument names a case");
    let (mut sizes, mut own, mut after) = (Sizes::default(), Vec::new(), false);
    for each in arguments {
        if after {
            own.push(each);
        } else if each == "--" {
            after = true;
        } else {
            sizes.add(&each);
        }
    }
    let act: fn(&mut Worker, &Sizes) = match case.as_str() {
        "count-timely" => counting::by_timely,
        "count-differential" => counting::by_differential,
        "empty-epochs" => coordination::epochs,
        "empty-rounds" => coordination::rounds,
        "exchange" => exchange::run,
        "components-timely" => components::by_timely,
        "components-differential" => components::by_differential,
        "changes-integers" => changes::integers,
        "changes-strings" => changes::strings,
        other => panic!("there is no case {other}"),
    };
    timely::execute_from_args(own.into_iter(), move |worker| act(worker, &sizes)).expect("timely starts");
}
