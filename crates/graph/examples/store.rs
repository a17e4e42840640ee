//! Measures the graph on disk: `cargo run --release -p graph --example store -- DIR LIST`.
//!
//! `LIST` is a list of friendships from `encke-lab friends generate`; `DIR` must not exist. With
//! `open` instead of a list, an existing graph is opened and read; with `change` it is also
//! changed, and the process then aborts without closing the file, like a kill.
//!
//! Prints one line `name: value unit` for each measurement.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::env;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{ExitCode, abort};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use graph::{Change, Directory, Graph, Id, LoadOptions, load};

/// Clients, each of which waits for an answer before its next change.
const CLIENTS: u32 = 64;

/// Changes of each client.
const CHANGES: u32 = 1000;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [path, what] = arguments.as_slice() else {
        eprintln!("usage: store DIR LIST, store DIR open, or store DIR change");
        return ExitCode::from(2);
    };
    let path = Path::new(path);
    match what.as_str() {
        "open" => look_up(&open(path)),
        "change" => {
            let graph = open(path);
            sync(path);
            change(&graph);
            // Leave the file as a kill would.
            abort();
        }
        list => load_list(path, Path::new(list)),
    }
    ExitCode::SUCCESS
}

fn load_list(path: &Path, list: &Path) {
    let start = Instant::now();
    let directory = Directory::lock(path).expect("no other process uses the directory");
    let input = File::open(list).expect("the list");
    let options = LoadOptions {
        mutual: true,
        ..LoadOptions::default()
    };
    let loaded = load(&directory, input, options, |_| {}).expect("a list of edges");
    let spent = start.elapsed();
    let file = directory.file().metadata().expect("the file");
    let edges = loaded.edges as f64;
    report("edges", edges, "");
    report("load", spent.as_secs_f64(), "s");
    report("load, user and system time", cpu_seconds(), "s");
    report("peak memory of the load", status("VmHWM") / 1e6, "MB");
    report("file", file.len() as f64 / 1e6, "MB");
    report("file on disk", file.blocks() as f64 * 512.0 / 1e6, "MB");
    report("file, each edge", file.len() as f64 / edges, "bytes");
}

fn open(path: &Path) -> Graph {
    let before = status("VmRSS");
    let start = Instant::now();
    let graph = Graph::open(path).expect("a graph");
    let spent = start.elapsed();
    let counts = graph.counts();
    let resident = status("VmRSS") - before;
    report("open", spent.as_secs_f64(), "s");
    report("open, user and system time", cpu_seconds(), "s");
    report("resident", resident / 1e6, "MB");
    let both = 2.0 * counts.edges as f64;
    report(
        "resident, each edge and direction",
        resident / both,
        "bytes",
    );
    graph
}

/// Looks up subscribers in random order, so that caches do not help.
fn look_up(graph: &Graph) {
    let users = 1_000_000_u32;
    let mut out = Vec::with_capacity(4096);
    let mut nanoseconds = Vec::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while nanoseconds.len() < 200_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let subject = Id::from((state >> 40) as u32 % users);
        let key = graph.find(&subject).expect("an integer");
        out.clear();
        let start = Instant::now();
        graph.subscribers(key, None, 4096, &mut out);
        let spent = start.elapsed();
        if (25..=35).contains(&out.len()) {
            nanoseconds.push(spent.as_nanos() as u32);
        }
        black_box(&out);
        if state == 0x9e37_79b9_7f4a_7c15 {
            break;
        }
    }
    nanoseconds.sort_unstable();
    let at = |share: usize| f64::from(nanoseconds[(nanoseconds.len() - 1) * share / 100]);
    report("lookup of 25 to 35 subscribers, p50", at(50), "ns");
    report("lookup of 25 to 35 subscribers, p99", at(99), "ns");
}

/// Measures one sync of a page on this disk.
fn sync(path: &Path) {
    let probe = path.join("probe");
    let file = File::create(&probe).expect("a file");
    let mut times: Vec<Duration> = (0..200_u64)
        .map(|at| {
            file.write_all_at(&[1; 4096], at % 16 * 4096).expect("room");
            let start = Instant::now();
            file.sync_data().expect("a disk");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    report("sync of a page, p50", times[100].as_secs_f64() * 1e3, "ms");
    report("sync of a page, p90", times[180].as_secs_f64() * 1e3, "ms");
    std::fs::remove_file(probe).expect("removed");
}

/// Measures clients that change single edges, then subscriptions to a subject with a million
/// subscribers.
fn change(graph: &Graph) {
    let start = Instant::now();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for round in 0..CHANGES {
                    let subscriber = Id::from((client * CHANGES + round) * 15 % 1_000_000);
                    let subject = Id::from(2_000_000 + client);
                    graph.subscribe(&subscriber, &subject).expect("a disk");
                }
            });
        }
    });
    let changes = f64::from(CLIENTS * CHANGES);
    report(
        "durable changes of 64 clients",
        changes / start.elapsed().as_secs_f64(),
        "per s",
    );
    star(graph);
}

fn star(graph: &Graph) {
    let star = Id::from(3_000_000);
    let all: Vec<Change> = (0..1_000_000)
        .map(|user| Change::Subscribe {
            subscriber: Id::from(user),
            subject: star.clone(),
        })
        .collect();
    let start = Instant::now();
    let (done, answered) = mpsc::channel();
    for some in all.chunks(10_000) {
        let done = done.clone();
        graph.submit(some.to_vec(), move |answer| {
            done.send(answer.len()).expect("the receiver is alive")
        });
        answered.recv().expect("an answer");
    }
    report(
        "a million subscribe to one subject",
        start.elapsed().as_secs_f64(),
        "s",
    );
    let before = cpu_seconds();
    let rounds = 200;
    for follower in 0..rounds {
        let follower = Id::from(4_000_000 + follower * 1000);
        graph.subscribe(&follower, &star).expect("a disk");
    }
    let each = (cpu_seconds() - before) / f64::from(rounds);
    report(
        "one more subscription, user and system time",
        each * 1e6,
        "us",
    );
}

fn report(name: &str, value: f64, unit: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{name}: {value:.3} {unit}");
}

/// Returns the value of a line of /proc/self/status, in bytes.
fn status(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(name));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: f64 = word
        .and_then(|word| word.parse().ok())
        .expect("the status has this line");
    kib * 1024.0
}

/// Returns the user and system time of this process in seconds, at a hundred ticks a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}
