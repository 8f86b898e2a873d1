//! What all cases share: sizes, random numbers, waiting, medians, and the line that is printed.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use timely::worker::Worker;

/// The numbers that a case is given by name.
#[derive(Clone, Default)]
pub struct Sizes(HashMap<String, usize>);

impl Sizes {
    /// Take an argument such as `rows=1000`.
    pub fn add(&mut self, argument: &str) {
        let (name, number) = argument.split_once('=').expect("a size is NAME=NUMBER");
        self.0.insert(name.to_owned(), number.parse().expect("a size is a number"));
    }

    pub fn get(&self, name: &str) -> usize {
        *self.0.get(name).unwrap_or_else(|| panic!("the case needs the size {name}"))
    }
}

/// Random numbers that are the same in every run (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// How a worker waits for others: it asks again and again, or it sleeps until a message comes.
#[derive(Clone, Copy, PartialEq)]
pub enum Waiting {
    Asking,
    Sleeping,
}

impl Waiting {
    /// The ways to try: alone nobody sends a message, so a worker that is alone never sleeps.
    pub fn ways(worker: &Worker) -> Vec<Waiting> {
        if worker.peers() == 1 {
            vec![Waiting::Asking]
        } else {
            vec![Waiting::Asking, Waiting::Sleeping]
        }
    }

    /// Step for as long as something is so.
    pub fn step_while(self, worker: &mut Worker, mut is_so: impl FnMut() -> bool) {
        while is_so() {
            match self {
                Waiting::Asking => worker.step(),
                Waiting::Sleeping => worker.step_or_park(Some(Duration::from_millis(10))),
            };
        }
    }
}

/// What one way of waiting took: seconds for each, and seconds of the processor for all.
pub struct Taken {
    pub each: Vec<f64>,
    pub processor: f64,
}

impl Taken {
    /// Do something so often.
    pub fn of(times: usize, mut act: impl FnMut(usize) -> f64) -> Taken {
        let before = processor_seconds();
        let each = (0..times).map(&mut act).collect();
        Taken { each, processor: processor_seconds() - before }
    }

    pub fn median(&self) -> f64 {
        let mut sorted = self.each.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

/// Print the better of some ways, on worker 0: seconds of one, and of the processor for one.
pub fn report(worker: &Worker, case: &str, ways: &[Taken], per: f64) {
    let better = ways.iter().min_by(|a, b| a.median().total_cmp(&b.median())).expect("one way at least");
    if worker.index() == 0 {
        let processor = better.processor / better.each.len() as f64 / per;
        println!(
            "{{\"case\": \"{case}\", \"workers\": {}, \"seconds\": {:.6e}, \"processor_seconds\": {processor:.6e}}}",
            worker.peers(),
            better.median() / per,
        );
    }
}

/// Seconds that something takes.
pub fn timed(act: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    act();
    begin.elapsed().as_secs_f64()
}

/// What all threads of this process have used of the processor, as Linux says it; elsewhere 0.
pub fn processor_seconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<f64>().ok())
        .sum::<f64>()
        / 1e9
}
