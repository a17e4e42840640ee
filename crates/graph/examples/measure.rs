//! Measures the graph in memory: `cargo run --release -p graph --example measure [USERS]`.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::env;
use std::hint::black_box;
use std::time::Instant;

use graph::{Graph, Id, Key};

/// Keys that a publish reads at a time.
const SLICE: usize = 4096;

/// Subscriptions of each user in the graph of friends.
const DEGREE: u32 = 30;

fn main() {
    let users = env::args()
        .nth(1)
        .map_or(1_000_000, |users| users.parse().expect("a number"));
    let mut order: Vec<u32> = (1..=users).collect();
    let in_order = order.clone();
    shuffle(&mut order);
    // This one first, as it measures resident memory and the allocator must have nothing to reuse.
    friends(users, &order);
    celebrity("in order", &in_order);
    celebrity("at random", &order);
    texts(users);
}

/// Subscribes all users to one subject, then walks its subscribers, adds one more and removes the
/// subject.
fn celebrity(label: &str, order: &[u32]) {
    let graph = Graph::memory();
    let star = Id::from(0);
    timed(&format!("subscribe {label}"), order.len(), || {
        for &user in order {
            graph
                .subscribe(&Id::from(user), &star)
                .expect("integers need no dictionary");
        }
    });
    let key = graph.find(&star).expect("an integer");
    for _ in 0..3 {
        timed("walk in slices of 4096", order.len(), || walk(&graph, key));
    }
    let (last, middle) = (Id::from(u32::MAX >> 1), Id::from(order[order.len() / 2]));
    timed("one subscribe and one unsubscribe", 1, || {
        graph
            .subscribe(&last, &star)
            .expect("integers need no dictionary");
        graph.unsubscribe(&middle, &star).expect("in memory");
    });
    timed("remove the subject", order.len(), || {
        graph.remove(&star).expect("in memory")
    });
    println!();
}

fn walk(graph: &Graph, subject: Key) -> usize {
    let mut out = Vec::with_capacity(SLICE);
    let mut after = None;
    let mut count = 0;
    loop {
        out.clear();
        graph.subscribers(subject, after, SLICE, &mut out);
        count += black_box(&out).len();
        if out.len() < SLICE {
            return count;
        }
        after = out.last().copied();
    }
}

/// Measures names that are held for a moment, and names that subscribe.
fn texts(users: u32) {
    let graph = Graph::memory();
    let name = |user: u32| Id::parse(&format!("user-{user}@example.org")).expect("a valid id");
    timed("hold and release names", users as usize, || {
        for user in 0..users {
            graph.release(graph.hold(&name(user)).expect("room"));
        }
    });
    timed("subscribe names to one subject", users as usize, || {
        for user in 0..users {
            graph.subscribe(&name(user), &Id::from(0)).expect("room");
        }
    });
    println!();
}

/// Measures a graph of friends: each user in turn subscribes to `DEGREE` others.
fn friends(users: u32, order: &[u32]) {
    let graph = Graph::memory();
    let before = resident_bytes();
    let edges = (users * DEGREE) as usize;
    let mut state = 0x9e37_79b9_7f4a_7c15;
    timed("subscribe friends", edges, || {
        for user in 0..users {
            for _ in 0..DEGREE {
                let friend = Id::from(random(&mut state) as u32 % users);
                graph
                    .subscribe(&Id::from(user), &friend)
                    .expect("integers need no dictionary");
            }
        }
    });
    println!("{:?}", graph.counts());
    report_bytes(before, graph.counts().edges);
    let mut out = Vec::new();
    timed("look up subscribers, cold", order.len(), || {
        for &user in order {
            let key = graph.find(&Id::from(user)).expect("an integer");
            out.clear();
            graph.subscribers(key, None, SLICE, &mut out);
            black_box(&out);
        }
    });
    println!();
}

fn timed<T>(label: &str, count: usize, work: impl FnOnce() -> T) {
    let start = Instant::now();
    black_box(work());
    let spent = start.elapsed();
    let each = spent.as_nanos() as f64 / count as f64;
    println!(
        "{label:32} {:10.3} ms {each:10.1} ns each",
        spent.as_secs_f64() * 1e3
    );
}

fn report_bytes(before: usize, edges: usize) {
    let bytes = resident_bytes().saturating_sub(before);
    let each = bytes as f64 / edges as f64 / 2.0;
    println!(
        "{:32} {:10.1} MB {each:10.2} bytes per edge and direction",
        "",
        bytes as f64 / 1e6
    );
}

/// Resident memory of this process, from /proc.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .expect("the status has a VmRSS line");
    line.split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<usize>().ok())
        .expect("a number")
        * 1024
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

fn shuffle(order: &mut [u32]) {
    let mut state = 0x2545_f491_4f6c_dd1d;
    for i in (1..order.len()).rev() {
        order.swap(i, random(&mut state) as usize % (i + 1));
    }
}
