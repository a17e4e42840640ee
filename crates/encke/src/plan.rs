//! `encke plan`: estimates what a number of users needs.

use std::time::Duration;

use clap::Args;
use cli::arguments::Report;
use cli::failure::Failure;
use cli::units;
use machine::doctor::settings::NeededSetting;
use machine::humanize;
use machine::plan::{Demand, Plan};
use serde::Serialize;

pub(crate) const HELP: &str = "\
An estimate, from constants that were measured on one machine (docs/BENCHMARKS.md).
`encke-lab prove` measures on yours. The kernel settings are those that `encke doctor` looks for;
it says which of them a machine has, and what else it needs.

Examples:
  encke plan --users 1e6 --rate 0.017 --friends 30
  encke plan --users 200000 --rate 0.1 --friends 50 --payload 400 --away 10m --tls";

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// Users connected at the same time
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = amount)]
    pub(crate) users: f64,
    /// Events that each user publishes, a second
    #[arg(long, value_name = "N", default_value = "0.017", value_parser = amount)]
    pub(crate) rate: f64,
    /// Connected subscribers of each user
    #[arg(long, value_name = "N", default_value = "30", value_parser = amount)]
    pub(crate) friends: f64,
    /// Payload of an event
    #[arg(long, value_name = "SIZE", default_value = "120", value_parser = units::size)]
    pub(crate) payload: usize,
    /// Time for which a client may be away and miss nothing
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = units::duration)]
    pub(crate) away: Duration,
    /// The server ends TLS
    #[arg(long)]
    pub(crate) tls: bool,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Largest number of users, events or friends.
const AMOUNT_MAX: f64 = 1e12;

fn amount(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|amount| (0.0..=AMOUNT_MAX).contains(amount))
        .ok_or_else(|| format!("`{text}` is no number from 0 to 1e12, like 1e6 or 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_that_can_be_computed_with() {
        assert_eq!(amount("1e6"), Ok(1e6));
        assert_eq!(amount("0"), Ok(0.0));
        for text in ["", "-1", "nan", "inf", "1e13", "many"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }
}

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
