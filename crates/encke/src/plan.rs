//! `encke plan`: estimates what a number of users needs.

use cli::failure::Failure;
use machine::doctor::settings::NeededSetting;
use machine::humanize;
use machine::plan::{Demand, Plan};
use serde::Serialize;

use crate::arguments::PlanArguments;

/// Prints the plan.
pub(crate) fn run(arguments: &PlanArguments) -> Result<(), Failure> {
    let demand = Demand {
        users: arguments.users,
        rate: arguments.rate,
        friends: arguments.friends,
        payload_bytes: arguments.payload as f64,
        away_seconds: arguments.away.as_secs_f64(),
        tls: arguments.tls,
    };
    let plan = Plan::of(&demand);
    let planned = Planned { demand, plan };
    let text = || text(&planned.demand, &planned.plan).trim_end().to_owned();
    arguments.report.print(&planned, text)
}

/// The plan as JSON (`--json`).
#[derive(Debug, Serialize)]
struct Planned {
    demand: Demand,
    #[serde(flatten)]
    plan: Plan,
}

fn text(demand: &Demand, plan: &Plan) -> String {
    let count = |value: f64| humanize::count(value.round() as u64);
    let size = |value: f64| humanize::size(value.round() as u64);
    let rows = [
        (
            "events published",
            format!("{} a second", count(plan.events_per_second)),
        ),
        (
            "events delivered",
            format!("{} a second", count(plan.deliveries_per_second)),
        ),
        ("", String::new()),
        ("memory", size(plan.memory_bytes)),
        ("  connections, in the kernel", size(plan.kernel_bytes)),
        ("  sessions", size(plan.session_bytes)),
        ("  graph", size(plan.graph_bytes)),
        ("  history (--history-bytes)", size(plan.history_bytes)),
        (
            "cores",
            format!("{}, of which {:.1} are busy", plan.cores, plan.cores_busy),
        ),
        (
            "network",
            format!("{:.0} Mbit/s", plan.bytes_per_second * 8.0 / 1e6),
        ),
        (
            "file descriptors (LimitNOFILE)",
            humanize::count(plan.descriptors),
        ),
        ("", String::new()),
        (
            "all users back within a minute",
            format!(
                "{} logins a second, {:.0} % of the cores",
                count(plan.logins_per_second),
                plan.logins_busy * 100.0
            ),
        ),
    ];
    let mut text = String::new();
    for (name, value) in rows {
        match name {
            "" => text.push('\n'),
            name => text.push_str(&format!("{name:<32}{value}\n")),
        }
    }
    text.push_str("\nkernel settings, at least\n");
    for NeededSetting { name, value, .. } in &plan.settings {
        text.push_str(&format!("  {name:<32}{value}\n"));
    }
    text.push_str(&format!(
        "\nWhich of them a machine has, and what else it needs: encke doctor --connections {}\n",
        demand.users.round().max(1.0) as u64
    ));
    text
}
