//! Connected components of a uniform graph: the load, then epochs of some more edges.
//!
//! The result of an epoch is the vertices whose label, the least vertex of their component, is new. By timely
//! that is an operator with a union-find; by differential dataflow it is its own propagation of labels.

use crate::measure::{processor_seconds, report, timed, Dice, Sizes, Taken};
use differential_dataflow::algorithms::graphs::propagate::propagate_at;
use differential_dataflow::input::InputSession;
use std::cell::RefCell;
use std::rc::Rc;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::vec::Input;
use timely::dataflow::operators::{Inspect, Operator, Probe};
use timely::dataflow::{InputHandleVec, ProbeHandle};
use timely::worker::Worker;

type Edge = (u32, u32);
type Labels = Rc<RefCell<Vec<(u32, u32)>>>;

const NONE: u32 = u32::MAX;

/// Components under more and more edges. The members of each are a list, in which whoever gets another label
/// is one piece; so an epoch looks only at those.
struct UnionFind {
    parent: Vec<u32>,
    following: Vec<u32>,
    last: Vec<u32>,
    size: Vec<u32>,
    label: Vec<u32>,
    moved: Vec<(u32, u32)>,
    moved_members: usize,
}

impl UnionFind {
    fn new(vertices: usize) -> UnionFind {
        UnionFind {
            parent: (0..vertices as u32).collect(),
            following: vec![NONE; vertices],
            last: (0..vertices as u32).collect(),
            size: vec![1; vertices],
            label: vec![NONE; vertices],
            moved: Vec::new(),
            moved_members: 0,
        }
    }

    fn root(&mut self, mut vertex: u32) -> u32 {
        while self.parent[vertex as usize] != vertex {
            let above = self.parent[self.parent[vertex as usize] as usize];
            self.parent[vertex as usize] = above;
            vertex = above;
        }
        vertex
    }

    fn moves(&mut self, root: u32) {
        self.moved.push((root, self.last[root as usize]));
        self.moved_members += self.size[root as usize] as usize;
    }

    fn add(&mut self, (src, dst): Edge) {
        for vertex in [src, dst] {
            if self.label[vertex as usize] == NONE {
                self.label[vertex as usize] = NONE - 1; // it is there, and has no label yet
                self.moved.push((vertex, vertex));
                self.moved_members += 1;
            }
        }
        let (one, other) = (self.root(src), self.root(dst));
        if one != other {
            let (winner, loser) = (one.min(other), one.max(other));
            self.moves(loser);
            self.parent[loser as usize] = winner;
            self.following[self.last[winner as usize] as usize] = loser;
            self.last[winner as usize] = self.last[loser as usize];
            self.size[winner as usize] += self.size[loser as usize];
        }
    }

    /// Tell each vertex whose label is new since the last call.
    fn changes(&mut self, mut tell: impl FnMut((u32, u32))) {
        let moved = std::mem::take(&mut self.moved);
        let members = std::mem::take(&mut self.moved_members);
        if members > self.parent.len() {
            for vertex in 0..self.parent.len() as u32 {
                self.relabel(vertex, &mut tell);
            }
            return;
        }
        for (mut vertex, last) in moved {
            loop {
                self.relabel(vertex, &mut tell);
                if vertex == last {
                    break;
                }
                vertex = self.following[vertex as usize];
            }
        }
    }

    fn relabel(&mut self, vertex: u32, tell: &mut impl FnMut((u32, u32))) {
        if self.label[vertex as usize] != NONE {
            let label = self.root(vertex);
            if self.label[vertex as usize] != label {
                self.label[vertex as usize] = label;
                tell((vertex, label));
            }
        }
    }
}

/// All edges: those of the load, then those of each epoch.
fn edges_of(sizes: &Sizes) -> Vec<Vec<Edge>> {
    let vertices = sizes.get("vertices");
    let mut dice = Dice(1);
    let mut drawn = |number: usize| -> Vec<Edge> {
        (0..number).map(|_| (dice.below(vertices as u64) as u32, dice.below(vertices as u64) as u32)).collect()
    };
    let mut all = vec![drawn(2 * vertices)];
    all.extend((0..sizes.get("epochs")).map(|_| drawn(sizes.get("edges"))));
    all
}

/// The least vertex of each vertex's component, by a walk through the neighbours; NONE where there is no edge.
fn walked(vertices: usize, edges: &[Vec<Edge>]) -> Vec<u32> {
    let mut begin = vec![0_usize; vertices + 1];
    let both = || edges.iter().flatten().flat_map(|(src, dst)| [(*src, *dst), (*dst, *src)]);
    both().for_each(|(src, _)| begin[src as usize + 1] += 1);
    (0..vertices).for_each(|vertex| begin[vertex + 1] += begin[vertex]);
    let mut next = begin.clone();
    let mut neighbours = vec![0_u32; begin[vertices]];
    for (src, dst) in both() {
        neighbours[next[src as usize]] = dst;
        next[src as usize] += 1;
    }
    let mut label = vec![NONE; vertices];
    for first in (0..vertices).filter(|vertex| begin[*vertex] < begin[vertex + 1]) {
        let mut ahead = if label[first] == NONE { vec![first] } else { vec![] };
        while let Some(vertex) = ahead.pop() {
            if label[vertex] == NONE {
                label[vertex] = first as u32;
                ahead.extend(neighbours[begin[vertex]..begin[vertex + 1]].iter().map(|each| *each as usize));
            }
        }
    }
    label
}

/// Load and add edges; `send` sends an epoch and says that the next one begins.
fn measured<I>(
    worker: &mut Worker,
    sizes: &Sizes,
    case: &str,
    (mut input, probe): (I, ProbeHandle<u64>),
    results: &Labels,
    send: impl Fn(&mut I, &[Edge], u64),
) {
    let edges = edges_of(sizes);
    let mut found = vec![NONE; sizes.get("vertices")];
    let mut epoch = |number: usize| {
        let next = number as u64 + 1;
        let seconds = timed(|| {
            send(&mut input, &edges[number], next);
            while probe.less_than(&next) {
                worker.step();
            }
        });
        for (vertex, label) in results.borrow_mut().drain(..) {
            found[vertex as usize] = label;
        }
        seconds
    };
    let before = processor_seconds();
    let load = Taken { each: vec![epoch(0)], processor: processor_seconds() - before };
    let more = Taken::of(edges.len() - 1, |number| epoch(number + 1));
    assert!(found == walked(found.len(), &edges), "the components are not those of a walk");
    report(worker, &format!("{case} load"), &[load], 1.0);
    report(worker, &format!("{case} more"), &[more], 1.0);
}

pub fn by_timely(worker: &mut Worker, sizes: &Sizes) {
    let (results, probe) = (Labels::default(), ProbeHandle::new());
    let (seen, vertices) = (results.clone(), sizes.get("vertices"));
    let mut input = InputHandleVec::new();
    worker.dataflow::<u64, _, _>(|scope| {
        Input::input_from(&scope, &mut input)
            .unary_notify(Pipeline, "components", None, {
                let mut components = UnionFind::new(vertices);
                move |input, output, notificator| {
                    input.for_each_time(|time, data| {
                        notificator.notify_at(time.retain(output.output_index()));
                        data.flatten().for_each(|edge| components.add(*edge));
                    });
                    while let Some((capability, _)) = notificator.next() {
                        let mut session = output.session(&capability);
                        components.changes(|row| session.give(row));
                    }
                }
            })
            .container::<Vec<_>>()
            .inspect_batch(move |_, rows| seen.borrow_mut().extend_from_slice(rows))
            .probe_with(&probe);
    });
    measured(worker, sizes, "components-timely", (input, probe), &results, |input, edges, next| {
        edges.iter().for_each(|edge| input.send(*edge));
        input.advance_to(next);
    });
}

pub fn by_differential(worker: &mut Worker, sizes: &Sizes) {
    let (results, probe) = (Labels::default(), ProbeHandle::new());
    let seen = results.clone();
    let mut input = InputSession::<u64, Edge, isize>::new();
    worker.dataflow::<u64, _, _>(|scope| {
        let edges = input.to_collection(scope);
        let both = edges.clone().map(|(src, dst)| (dst, src)).concat(edges);
        let nodes = both.clone().map(|(src, _)| (src, src)).distinct();
        propagate_at(both, nodes, |label| u64::from(*label))
            .consolidate() // labels of rounds on the way cancel out
            .inspect_batch(move |_, rows| {
                let there = rows.iter().filter(|(_, _, weight)| *weight > 0);
                seen.borrow_mut().extend(there.map(|(row, _, _)| *row));
            })
            .probe_with(&probe);
    });
    measured(worker, sizes, "components-differential", (input, probe), &results, |input, edges, next| {
        edges.iter().for_each(|edge| input.insert(*edge));
        input.advance_to(next);
        input.flush();
    });
}
