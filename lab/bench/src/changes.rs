//! Benchmark of durable changes of the graph, one edge a request, and of its start time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use clap::Args;
use machine::failure::{Context, Failure, Outcome};
use recorder::measure::median;
use serde_json::Value;

use crate::child::Server;
use crate::config::{BenchConfig, at_least_one};
use crate::cost::Meter;
use crate::report::Report;

/// First subscriber that changes, above the users of a generated graph.
const FIRST: u32 = 1_500_000_000;

/// Number of syncs timed.
const SYNCS: u32 = 200;

/// Bytes written before each sync: one page.
const PAGE_BYTES: usize = 4096;

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Data directory, created if missing; changes stay in it
    #[arg(long)]
    pub data: PathBuf,
    /// Clients, each with its own connection
    #[arg(long, default_value = "64", value_parser = at_least_one)]
    pub clients: u32,
    /// Changes of each client
    #[arg(long, default_value = "2000", value_parser = at_least_one)]
    pub changes: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When the server cannot be started, or a request fails.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let mut setting = setting.clone();
    let data = parameters.data.display().to_string();
    setting
        .server_arguments
        .extend(["--memory=false".to_owned(), "--data".to_owned(), data]);
    let (server, seconds) = start(&setting)?;

    let stats = server.control()?.stats()?;
    let edges = stats.pointer("/graph/edges").and_then(Value::as_u64);
    let edges = edges.ok_or_else(|| Failure::new("/v1/stats has no number at /graph/edges"))?;
    let mut report = Report::new(format!("Durable changes, a graph of {edges} edges"));
    report.at_most("start to serving", seconds, "s", 1.5);

    let sync = sync_seconds(&parameters.data)?;
    report.figure("one sync of a page on this disk", sync * 1e6, "us");
    change(&server, parameters, &mut report)?;

    // Dropping the server kills it.
    drop(server);
    let (_, seconds) = start(&setting)?;
    report.at_most("start after a kill", seconds, "s", 3.0);
    Ok(report)
}

/// Starts the server; returns it and the seconds that took.
fn start(setting: &BenchConfig) -> Outcome<(Server, f64)> {
    let begun = Instant::now();
    let server = setting.start_server()?;
    Ok((server, begun.elapsed().as_secs_f64()))
}

/// Returns the median time, in seconds, of a sync after one page was written.
fn sync_seconds(data: &Path) -> Outcome<f64> {
    let path = data.join("sync-is-timed");
    let doing = format_args!("timing a sync in {}", data.display()).to_string();
    let file = File::create(&path).context(&doing)?;
    let mut times = Vec::new();
    for number in 0..SYNCS {
        let page = [number as u8; PAGE_BYTES];
        file.write_all_at(&page, u64::from(number) * PAGE_BYTES as u64)
            .context(&doing)?;
        let begun = Instant::now();
        file.sync_data().context(&doing)?;
        times.push(begun.elapsed().as_secs_f64());
    }
    std::fs::remove_file(&path).context(&doing)?;
    Ok(median(&times))
}

fn change(server: &Server, parameters: &Parameters, report: &mut Report) -> Outcome<()> {
    let meter = Meter::start(server.pid())?;
    let clients: Vec<_> = (0..parameters.clients)
        .map(|client| {
            let (mut control, changes) = (server.control()?, parameters.changes);
            Ok(thread::spawn(move || -> Outcome<Vec<f64>> {
                let subscriber = (FIRST + client).to_string();
                (0..changes)
                    .map(|subject| {
                        let asked = Instant::now();
                        control.subscribe(&subscriber, &subject.to_string())?;
                        Ok(asked.elapsed().as_secs_f64())
                    })
                    .collect()
            }))
        })
        .collect::<Outcome<_>>()?;
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.join().expect("a client does not panic")?);
    }
    let spent = meter.stop()?;
    times.sort_by(f64::total_cmp);
    let changes = times.len() as f64;
    let name = format!("{} clients, an edge a request: rate", parameters.clients);
    report.at_least(&name, changes / spent.seconds, "changes/s", 10_000.0);
    for (name, share) in [("latency p50", 0.5), ("latency p99", 0.99)] {
        let time = times.get((changes * share) as usize).copied();
        report.figure(name, time.unwrap_or_default() * 1000.0, "ms");
    }
    let cost = spent.micros_each(changes);
    report.figure("processor of the server", cost, "us/change");
    Ok(())
}
