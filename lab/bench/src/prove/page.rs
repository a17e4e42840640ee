//! Report as one self-contained HTML page, for screen or paper, light or dark.

mod parts;
mod killed;
mod latency;

use std::fmt;

use machine::failure::Outcome;
use machine::humanize::count;
use recorder::plot::panels::PanelKind;
use recorder::plot::recording::Recording;
use recorder::plot::{Unit, panels};

use super::history::HISTORY;
use super::proof::{DriveResult, OpeningResult, Proof};
use parts::{append_chart, panel, rates};

/// Style sheet. The page's colours follow the reader's preference and replace the charts' text and
/// grid colours; the charts' lines keep theirs.
const STYLE: &str = include_str!("page.css");

/// Renders the page.
///
/// # Errors
///
/// When a figure cannot be drawn.
pub fn html(proof: &Proof) -> Outcome<String> {
    let users = count(proof.connections.into());
    let driven = proof.driven.as_ref();
    let cluster = driven.and_then(|driven| driven.cluster.as_ref());
    let place = match cluster {
        Some(cluster) => format!("{} nodes", cluster.nodes),
        None => "one machine".to_owned(),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Encke: {users} users on {place}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n<h1>{users} users on {place}</h1>\n"
    );
    page += &format!(
        "<p class=\"sub\">Encke {}, {}</p>\n",
        proof.version,
        machine(proof)
    );
    verdict(proof, &mut page);
    if let Some(opened) = &proof.opened {
        tiles(opened, driven, &mut page);
        // The earlier servers were single machines.
        if cluster.is_none() {
            history(proof, opened, &mut page);
        }
    }
    if let Some(driven) = driven {
        if let Some(cluster) = cluster {
            killed::of_cluster(cluster, &mut page)?;
        }
        if let Some(restart) = &driven.restart {
            killed::of_server(restart, &mut page)?;
        }
        latency::table(driven, &mut page)?;
    }
    over_time(proof, &mut page)?;
    details(proof, &mut page);
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(page)
}

fn machine(proof: &Proof) -> String {
    let machine = &proof.machine;
    escape(&format!(
        "{}, {} cores, {} GiB, Linux {}",
        machine.processor, machine.cores, machine.memory_gib, machine.kernel
    ))
}

fn verdict(proof: &Proof, page: &mut String) {
    let failures = proof.failures();
    if proof.interrupted {
        page.push_str(
            "<p class=\"bad\">The experiment was interrupted: these are the results until \
             then.</p>\n",
        );
    }
    for failure in &failures {
        *page += &format!("<p class=\"bad\">{}</p>\n", escape(failure));
    }
    let is_good = failures.is_empty() && !proof.interrupted;
    let driven = proof.driven.as_ref();
    let restart = driven.and_then(|driven| driven.restart.as_ref());
    let cluster = driven.and_then(|driven| driven.cluster.as_ref());
    if let (true, Some(restart)) = (is_good, restart) {
        *page += &format!(
            "<p class=\"good\">The server was killed during the run, and every user came \
                 back: {}.</p>\n",
            restart.judgement.sentence()
        );
    } else if let (true, Some(cluster)) = (is_good, cluster) {
        *page += &format!(
            "<p class=\"good\">A node and a server of the engine were killed during the run, \
                 and nothing was lost: {}, none out of order.</p>\n",
            cluster.judgement.sentence()
        );
    } else if is_good {
        page.push_str(
            "<p class=\"good\">Every event that the receipts promise arrived; none came twice or \
             out of order, and no stream ended.</p>\n",
        );
    }
}

/// Appends the main results.
fn tiles(opened: &OpeningResult, driven: Option<&DriveResult>, page: &mut String) {
    page.push_str("<div class=\"tiles\">\n");
    let mut tile = |value: String, unit: &str, what: &str| {
        *page +=
            &format!("<div class=\"tile\"><b>{value}</b> <span>{unit}</span><p>{what}</p></div>\n");
    };
    let whole = |value: f64| count(value.round().max(0.0) as u64);
    tile(
        whole(opened.server_each()),
        "bytes",
        "a connection, in the server&rsquo;s process",
    );
    tile(
        whole(opened.kernel_end_each()),
        "bytes",
        "a connection, in the kernel, for the server&rsquo;s end",
    );
    tile(whole(opened.rate()), "a second", "users connected");
    if let Some(driven) = driven {
        let (processor, _) = driven.processor_each();
        tile(whole(driven.rate()), "a second", "events delivered");
        let p99 = format!("{:.2}", driven.seen.totals.latency.p99_us / 1000.0);
        tile(
            p99,
            "ms",
            "99th percentile of the delivery latency, from when the event was due",
        );
        tile(
            format!("{processor:.1}"),
            "&micro;s",
            "CPU time of the server for each delivery",
        );
    }
    page.push_str("</div>\n");
}

/// Appends the comparison with earlier servers.
fn history(proof: &Proof, opened: &OpeningResult, page: &mut String) {
    page.push_str(
        "<h2>Compared with earlier servers</h2>\n<table>\n<thead><tr><th>Server</th>\
         <th class=\"n\">Users</th><th class=\"n\">Messages a second</th>\
         <th class=\"n\">Process memory, bytes a user</th></tr></thead>\n<tbody>\n",
    );
    let unknown = || "&ndash;".to_owned();
    for past in HISTORY {
        let rate = past.messages_a_second.map_or_else(unknown, count);
        let bytes = match past.bytes_a_user {
            (least, most) if least == most => count(least),
            (least, most) => format!("{} to {}", count(least), count(most)),
        };
        *page += &format!(
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{rate}</td>\
                 <td class=\"n\">{bytes}</td></tr>\n",
            past.server,
            count(past.users)
        );
    }
    let rate = proof.driven.as_ref().map_or_else(unknown, |driven| {
        count(driven.published.rate.reached.round() as u64)
    });
    *page += &format!(
        "<tr class=\"us\"><td>Encke {}, this run</td><td class=\"n\">{}</td>\
             <td class=\"n\" id=\"rate\">{rate}</td><td class=\"n\" id=\"server-bytes\">{:.1}</td>\
             </tr>\n</tbody>\n</table>\n",
        proof.version,
        count(proof.connections.into()),
        opened.server_each(),
    );
    page.push_str(
        "<p class=\"note\">The older results are as published, each with a different number of \
         users; for a million users no rate was published. Memory is the growth of the \
         server&rsquo;s process while users connected, divided by their number; with few users it \
         is imprecise, as the allocator grows in steps. The kernel&rsquo;s sockets are not \
         included, for any server.</p>\n",
    );
}

/// Appends the charts over time: the recordings, users and deliveries.
fn over_time(proof: &Proof, page: &mut String) -> Outcome<()> {
    let recordings = proof.recordings.iter();
    let recordings = recordings
        .map(|(label, text)| Recording::parse(label, "the recording", text))
        .collect::<Outcome<Vec<Recording>>>()?;
    let is_cluster = recordings.len() > 1;
    // Users are counted by their own process: a recording counts a million connections only rarely.
    let shown = [PanelKind::Memory, PanelKind::Kernel, PanelKind::CpuTime];
    let mut figure = panels::figure(&recordings, Some(&shown), "")?;
    // The cost of a connection is shown above. In a short run its chart over time would mostly show
    // earlier allocations, or other programs.
    for panel in &mut figure.panels {
        panel.right = None;
    }
    if is_cluster {
        // All nodes run on the same machine.
        let kernel = &mut figure.panels[1];
        kernel.left.lines.truncate(1);
        kernel.left.lines[0].label = "all".to_owned();
    }
    let label = if is_cluster { "all" } else { "server" };
    if let Some(opened) = &proof.opened {
        let connected = proof.driven.iter().flat_map(|driven| &driven.connected);
        let points = opened.arrivals.iter().chain(connected);
        let points = points.map(|&(at, users)| (at, users as f64));
        let panel = panel(label, "Users connected", Unit::Count, points.collect());
        figure.panels.insert(2, panel);
    }
    if let Some(driven) = &proof.driven {
        let rates = rates(&driven.arrivals);
        let panel = panel(label, "Events delivered", Unit::PerSecond, rates);
        figure.panels.push(panel);
    }
    page.push_str("<h2>Over time</h2>\n");
    append_chart(&figure, page)
}

fn details(proof: &Proof, page: &mut String) {
    page.push_str("<h2>Details</h2>\n<table class=\"details\">\n<tbody>\n");
    let mut row = |name: &str, value: &dyn fmt::Display| {
        let value = escape(&value.to_string());
        *page += &format!("<tr><td>{name}</td><td>{value}</td></tr>\n");
    };
    row("Command", &proof.command);
    let tables = if proof.private_fds {
        ", each with a descriptor table"
    } else {
        ""
    };
    row("Workers", &format_args!("{}{tables}", proof.workers));
    if let Some(graph) = proof.graph {
        row(
            "Graph",
            &format_args!(
                "{} friendships, generated and loaded in {:.1} s",
                count(graph.friendships),
                graph.seconds
            ),
        );
    }
    if let Some(opened) = &proof.opened {
        row(
            "Users connected",
            &format_args!("{} in {:.1} s", count(opened.connections), opened.seconds),
        );
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        row(
            "Server resident",
            &format_args!(
                "{} before, {} with all users",
                megabytes(opened.server_before),
                megabytes(opened.server)
            ),
        );
        row(
            "Kernel objects, both ends",
            &format_args!("{} more than before", megabytes(opened.kernel)),
        );
        row(
            "Process of the users",
            &format_args!("{:.0} bytes a user", opened.user_each()),
        );
    }
    if let Some(driven) = &proof.driven {
        let (processor, user) = driven.processor_each();
        let rate = &driven.published.rate;
        row(
            "Events published",
            &format_args!(
                "{}, {} a second of {} asked for",
                count(driven.published.events.accepted),
                count(rate.reached.round() as u64),
                count(rate.asked.round() as u64)
            ),
        );
        row("Events delivered", &count(driven.deliveries));
        row(
            "CPU time for each delivery",
            &format_args!("{processor:.2} \u{b5}s, {user:.2} of it in user mode"),
        );
    }
    for setting in &proof.settings {
        row("Changed and restored", setting);
    }
    for remark in &proof.remarks {
        row("Advice", remark);
    }
    page.push_str("</tbody>\n</table>\n");
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
