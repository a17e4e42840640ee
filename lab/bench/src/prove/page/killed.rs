//! Section of the report about what was killed: a server, or a part of a cluster.

use machine::failure::Outcome;
use machine::humanize::count;
use recorder::plot::{Figure, Line, Panel, Unit, XScale};

use super::parts::{append_chart, panel, rates};
use crate::prove::outage::ClusterResult;
use crate::prove::restart::RestartResult;
use crate::prove::service::node_name;

/// Appends the section about the killed node and server of the engine.
pub(super) fn of_cluster(cluster: &ClusterResult, page: &mut String) -> Outcome<()> {
    *page += &format!(
        "<h2>Killed and back</h2>\n<p class=\"note\">kill -9 of node {}, which had {} users, \
             and of {}, the server of the engine that led the log, {:.1} s after the start; both \
             were started again {:.1} s later. Users who lose their node reconnect to another one \
             after a random time of up to 10 s, with their last event id. {} attempts to \
             reconnect failed; {} events came again and were dropped; {} events had no answer \
             when their node was killed, and may have been published or not.</p>\n",
        cluster.killed_node,
        count(cluster.cut),
        cluster.killed_server,
        cluster.killed_at,
        cluster.away_seconds,
        count(cluster.recovery.attempts_failed),
        count(cluster.recovery.repeats),
        count(cluster.unanswered),
    );
    page.push_str(
        "<table>\n<thead><tr><th>Time to recover</th><th class=\"n\">s</th></tr></thead>\n\
         <tbody>\n",
    );
    let absence = &cluster.absence;
    for (what, seconds) in [
        (
            "Longest time without a receipt from any node",
            cluster.silence_seconds,
        ),
        (
            "Without a stream: median of these users",
            absence.p50_us / 1e6,
        ),
        ("Without a stream: 99th percentile", absence.p99_us / 1e6),
        ("Without a stream: maximum", absence.max_us / 1e6),
        (
            "All users have a stream, from the kill",
            cluster.back_seconds,
        ),
        (
            "The node is ready again, from the kill",
            cluster.node_seconds,
        ),
        (
            "The server of the engine is healthy again, from the kill",
            cluster.server_seconds,
        ),
    ] {
        *page += &format!("<tr><td>{what}</td><td class=\"n\">{seconds:.1}</td></tr>\n");
    }
    page.push_str("</tbody>\n</table>\n");
    let all = cluster.streams.iter();
    let mut lines = vec![Line::whole(
        "all",
        all.map(|&(at, active)| (at, active as f64)).collect(),
    )];
    let nodes = cluster.streams_by_node.iter().enumerate();
    lines.extend(nodes.map(|(index, pieces)| Line {
        label: node_name(index),
        pieces: pieces.clone(),
    }));
    let streams = Panel::new("Users with a stream", Unit::Count, lines);
    let receipts = rates(&cluster.acknowledged);
    let receipts = panel("all", "Events with a receipt", Unit::PerSecond, receipts);
    let figure = Figure::untitled(vec![streams, receipts], XScale::Time);
    append_chart(&figure, page)
}

/// Appends the section about the recovery of the users.
pub(super) fn of_server(restart: &RestartResult, page: &mut String) -> Outcome<()> {
    *page += &format!(
        "<h2>Killed and back</h2>\n<p class=\"note\">kill -9 while events were published. The \
             server was healthy again after {:.1} s, and all users had a stream again after {:.1} \
             s. Time without a stream: median {:.1} s, 99th percentile {:.1} s, maximum {:.1} s. \
             {} attempts to reconnect failed; {} events came again and were dropped.</p>\n",
        restart.server_seconds,
        restart.back_seconds,
        restart.absence.p50_us / 1e6,
        restart.absence.p99_us / 1e6,
        restart.absence.max_us / 1e6,
        count(restart.recovery.attempts_failed),
        count(restart.recovery.repeats),
    );
    let first = restart.streams.first().map_or(0.0, |(at, _)| *at);
    let points = restart.streams.iter();
    let points = points
        .map(|&(at, active)| (at - first, active as f64))
        .collect();
    let panel = panel("server", "Users with a stream", Unit::Count, points);
    let figure = Figure::untitled(vec![panel], XScale::Time);
    append_chart(&figure, page)
}
