//! `encke cluster drain`: makes a node send its clients to other nodes, and end.

use std::thread::park_timeout;
use std::time::{Duration, Instant};

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::progress::ProgressBar;
use cli::units::human_count;
use client::control_client::ControlClient;
use serde_json::{Value, json};

pub(super) const HELP: &str = "\
The node is no longer ready, tells its clients to reconnect, over its drain-spread, and ends, as it
does on SIGTERM. Any node of the cluster can be asked; the token needs the right `admin`. A node
that does not answer is not drained: if it is dead, its clients have gone elsewhere already. What
starts the node again, for example Kubernetes, should be told first.

Examples:
  encke cluster drain n2
  encke cluster drain n2 --control http://10.0.0.1:8001 --control-token-file token --no-wait";

#[derive(Debug, Args)]
pub(crate) struct DrainArguments {
    /// Name of the node
    pub(crate) node: String,
    /// Do not wait until the node has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Interval at which the progress is requested.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Requests in a row that may fail before the command gives up: those of ten seconds.
const FAILURES_MAX: u32 = 40;

/// Time for an answer to a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Drains a node, and waits until it has left the cluster.
pub(super) fn run(arguments: &DrainArguments) -> Result<(), Failure> {
    let start = Instant::now();
    let mut client = arguments.control.client()?;
    client.set_read_timeout(ANSWER_TIMEOUT);
    let node = &arguments.node;
    let asked = client.cluster()?;
    let draining = client.drain_node(node)?;
    if draining["others_ready"] == 0 {
        eprintln!(
            "warning: no other node is ready; the clients of {node} can reconnect when one is"
        );
    }
    if arguments.no_wait {
        let sessions = human_count(draining["sessions"].as_u64().unwrap_or(0));
        let text = || format!("{node} drains: {sessions} sessions");
        return arguments.report.print(&draining, text);
    }
    let is_asked = asked["node"] == **node;
    wait(&mut client, &draining, is_asked)?;
    let seconds = start.elapsed().as_secs_f64();
    let report = json!({"node": node, "sessions": draining["sessions"], "seconds": seconds});
    arguments.report.print(&report, || {
        format!(
            "{node} has sent its clients to other nodes and has left the cluster, in {seconds:.1} s"
        )
    })
}

/// Waits until the node has left the cluster. If it is the one that answers (`is_asked`), it has
/// left when it answers no more.
fn wait(client: &mut ControlClient, draining: &Value, is_asked: bool) -> Result<(), Failure> {
    let all = draining["sessions"].as_u64().unwrap_or(0);
    let progress = ProgressBar::of(all, "sessions sent elsewhere");
    let mut failures = 0;
    let waited = loop {
        match client.cluster() {
            Ok(cluster) => match find(&cluster, &draining["incarnation"]) {
                Some(node) => {
                    failures = 0;
                    let left = node["sessions"].as_u64().unwrap_or(0);
                    progress.reach(all.saturating_sub(left));
                }
                None => break Ok(()),
            },
            Err(_) if is_asked => break Ok(()),
            Err(failure) if failures == FAILURES_MAX => {
                break Err(Failure::failed(format_args!(
                    "the node drains, but its progress cannot be read any more: {failure}"
                )));
            }
            Err(_) => failures += 1,
        }
        park_timeout(LOOK_INTERVAL);
    };
    progress.end();
    waited
}

fn find<'a>(cluster: &'a Value, incarnation: &Value) -> Option<&'a Value> {
    let mut nodes = cluster["nodes"].as_array()?.iter();
    nodes.find(|node| node["incarnation"] == *incarnation)
}
