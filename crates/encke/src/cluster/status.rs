//! `encke cluster status`: shows the nodes and the log of a cluster, as one of its nodes sees them.

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::output;
use cli::units::{age, human_count, human_size};
use serde_json::Value;

pub(super) const HELP: &str = "\
Any node of the cluster can be asked. The exit code is 0 if the node that was asked is ready, has
heard of each node within the last 3 seconds, and the log has a leader and followers that keep up;
otherwise it is 1.

Examples:
  encke cluster status
  encke cluster status --control http://10.0.0.1:8001 --json";

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Silence of a node that is reported as a problem. Nodes send a heartbeat each second.
const SILENCE_MAX_SECONDS: f64 = 3.0;

/// Silence of the log's leader that is reported as a problem. It is asked each second.
const LEADER_SILENCE_MAX_SECONDS: f64 = 5.0;

/// Shows the cluster. Fails if it has a problem.
pub(super) fn run(arguments: &StatusArguments) -> Result<(), Failure> {
    let status = arguments.control.client()?.cluster()?;
    let wrong = problems(&status);
    let text = || text(&status).trim_end().to_owned();
    arguments.report.print(&status, text)?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(wrong.join("; "))),
    }
}

/// Returns a sentence for each problem of the cluster.
fn problems(status: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(why) = status["not_ready"].as_str() {
        problems.push(format!("{} is not ready: {why}", shown(&status["node"])));
    }
    let own = &status["incarnation"];
    for node in list(&status["nodes"]) {
        let (name, silent) = (shown(&node["name"]), number(&node["silent_seconds"]));
        if silent >= SILENCE_MAX_SECONDS {
            problems.push(format!("{name} was last heard {silent:.0} s ago"));
        } else if node["state"] == "not_ready" && node["incarnation"] != *own {
            problems.push(format!(
                "{name} is not ready; `encke cluster status` at its own control listener says why"
            ));
        }
    }
    let engine = &status["engine"];
    if engine["leader"].is_null()
        || number(&engine["leader_silent_seconds"]) >= LEADER_SILENCE_MAX_SECONDS
    {
        problems.push("the log has no leader that answers".to_owned());
    } else {
        let behind = list(&engine["followers"]).filter(|it| it["current"] == false);
        problems.extend(behind.map(|follower| {
            format!(
                "{} of the engine does not keep up with the leader of the log",
                shown(&follower["name"])
            )
        }));
    }
    problems
}

fn text(status: &Value) -> String {
    let last = number(&status["last"]);
    let ready = match status["ready"] == true {
        true => "ready",
        false => "not ready",
    };
    let mut lines = vec![
        format!(
            "node {} is {ready}; the log has the epoch {} and {} entries up to now",
            shown(&status["node"]),
            shown(&status["epoch"]),
            human_count(last as u64)
        ),
        String::new(),
    ];
    let titles = [
        "NODE", "STATE", "APPLIED", "BEHIND", "LAG", "SESSIONS", "HEARD", "UP", "VERSION",
    ];
    let mut rows = vec![titles.map(str::to_owned)];
    let mut sessions = 0;
    for node in list(&status["nodes"]) {
        sessions += node["sessions"].as_u64().unwrap_or(0);
        let count = |name: &str| human_count(node[name].as_u64().unwrap_or(0));
        rows.push([
            shown(&node["name"]),
            shown(&node["state"]).replace('_', " "),
            count("applied"),
            count("behind"),
            format!("{:.1}s", number(&node["lag_seconds"])),
            count("sessions"),
            format!("{:.1}s ago", number(&node["silent_seconds"])),
            age(number(&node["uptime_seconds"])),
            shown(&node["version"]),
        ]);
    }
    let nodes = rows.len() - 1;
    lines.push(output::table(&rows));
    lines.push(format!(
        "{nodes} nodes, {} sessions\n",
        human_count(sessions)
    ));
    lines.push(engine(&status["engine"]));
    lines.join("\n")
}

/// Returns the lines about the engine and this node's connection to it.
fn engine(engine: &Value) -> String {
    let leader = match engine["leader"].as_str() {
        Some(leader) => format!(
            "{leader} leads, and answered {:.1} s ago",
            number(&engine["leader_silent_seconds"])
        ),
        None => "no server leads".to_owned(),
    };
    let followers = list(&engine["followers"]).map(|follower| {
        let is = match follower["current"] == true {
            true => "keeps up",
            false => "does not keep up",
        };
        let lag = follower["lag"].as_u64().unwrap_or(0);
        format!(
            "{} {is}, {} entries behind",
            shown(&follower["name"]),
            human_count(lag)
        )
    });
    let followers: Vec<_> = followers.collect();
    let followers = match followers.is_empty() {
        true => "no other server keeps the log".to_owned(),
        false => followers.join("; "),
    };
    let bytes = |name: &str| human_size(engine[name].as_u64().unwrap_or(0));
    let of = match engine["bytes_max"].as_u64() {
        Some(0) | None => String::new(),
        Some(_) => format!(" of {}", bytes("bytes_max")),
    };
    let count = |name: &str| human_count(engine[name].as_u64().unwrap_or(0));
    format!(
        "engine: {leader}; {followers}\nlog: {}{of}, from entry {} on\nthis node: connected to {}, \
         {} connections lost, {} consumers replaced",
        bytes("bytes"),
        count("first"),
        engine["server"].as_str().unwrap_or("no server"),
        count("disconnects"),
        human_count(engine["consumers"].as_u64().unwrap_or(0).saturating_sub(1)),
    )
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// Returns a text of another program with its control characters escaped.
fn shown(value: &Value) -> String {
    output::escaped(value.as_str().unwrap_or("-")).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        json!({
            "node": "n1", "epoch": "e", "incarnation": "1", "ready": true, "last": 12_000,
            "engine": {
                "server": "s1", "leader": "s1", "leader_silent_seconds": 0.2,
                "followers": [{"name": "s2", "current": true, "lag": 0, "silent_seconds": 0.1}],
                "first": 1, "bytes": 1 << 20, "bytes_max": 1 << 30, "consumers": 3,
                "disconnects": 2
            },
            "nodes": [
                {"name": "n1", "state": "ready", "applied": 12_000, "behind": 0, "incarnation": "1",
                 "lag_seconds": 0.0, "sessions": 5, "silent_seconds": 0.3, "uptime_seconds": 70.0,
                 "version": "0.1.0"},
                {"name": "n2", "state": "draining", "applied": 11_990, "behind": 10,
                 "incarnation": "2", "lag_seconds": 0.2, "sessions": 1, "silent_seconds": 0.9,
                 "uptime_seconds": 9.0, "version": "0.1.0"}
            ]
        })
    }

    #[test]
    fn a_cluster_is_a_table_of_nodes_and_three_lines() {
        let text = text(&status());
        for part in [
            "node n1 is ready",
            "12,000 entries",
            "n2    draining  11,990   10      0.2s",
            "2 nodes, 6 sessions",
            "s1 leads, and answered 0.2 s ago; s2 keeps up, 0 entries behind",
            "2 connections lost, 2 consumers replaced",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert_eq!(problems(&status()), [""; 0], "a node may be drained");
    }

    #[test]
    fn problems_are_reported() {
        type Spoil = fn(&mut Value);
        let spoils: [(&str, Spoil); 6] = [
            ("it is behind", |it| it["not_ready"] = "it is behind".into()),
            ("n2 was last heard 4 s ago", |it| {
                it["nodes"][1]["silent_seconds"] = 4.2.into();
            }),
            ("n2 is not ready", |it| {
                it["nodes"][1]["state"] = "not_ready".into();
            }),
            ("no leader", |it| it["engine"]["leader"] = Value::Null),
            ("no leader", |it| {
                it["engine"]["leader_silent_seconds"] = 5.0.into();
            }),
            ("s2 of the engine", |it| {
                it["engine"]["followers"][0]["current"] = false.into();
            }),
        ];
        for (word, spoil) in spoils {
            let mut status = status();
            spoil(&mut status);
            let found = problems(&status);
            assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
        }
    }
}
