use serde_json::json;

use super::*;
use crate::top::snapshot::tests::{proxy_stats, stats};

fn snapshot(uptime_seconds: f64, counted: u64) -> Snapshot {
    Snapshot::parse(&stats(uptime_seconds, counted)).unwrap()
}

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-9, "{left} {right}");
}

#[test]
fn counters_become_rates_by_the_servers_clock() {
    let view = View::between(&snapshot(10.0, 10), &snapshot(12.0, 14)).unwrap();
    assert_eq!(view.seconds, 2.0);
    assert_eq!(view.push.unwrap().publishes_per_second["publish"], 2.0);
    let first = &view.workers[0];
    assert_eq!(first.accepts_per_second, 4.0);
    assert_eq!(first.closes_per_second, Some(4.0));
    assert_eq!(
        (first.bytes_in_per_second, first.bytes_out_per_second),
        (100.0, 1000.0)
    );
    let sessions = first.sessions.as_ref().unwrap();
    assert_eq!(sessions.deliveries_per_second["written"], 10.0);
    assert_eq!(first.system_calls_per_second["send"], 14.0);
    assert_eq!(first.system_calls_per_second["epoll_wait"], 8.0);
    assert_eq!(first.events_per_poll, Some(1.5));
    let all = &view.totals;
    assert_eq!(all.accepts_per_second, 16.0);
    assert_eq!(all.polls_per_second, 32.0);
    assert_eq!(all.events_per_poll, Some(1.5));
}

#[test]
fn gauges_are_those_of_the_later_snapshot() {
    let view = View::between(&snapshot(10.0, 10), &snapshot(12.0, 4)).unwrap();
    assert_eq!(
        (view.workers[0].connections, view.totals.connections),
        (5, 18)
    );
    let sessions = |row: &Row| row.sessions.clone().unwrap();
    let all = sessions(&view.totals);
    assert_eq!((sessions(&view.workers[0]).sessions, all.sessions), (5, 18));
    assert_eq!(all.backlog_bytes, 160);
    assert_eq!(view.totals.mailbox_messages, 16);
    // A counter that has decreased has no rate.
    assert_eq!(view.totals.accepts_per_second, 0.0);
}

#[test]
fn polls_by_events_sum_to_all_polls() {
    let view = View::between(&snapshot(1.0, 1), &snapshot(4.0, 100)).unwrap();
    for row in view.workers.iter().chain([&view.totals]) {
        let sum: f64 = row.polls_by_events_per_second.values().sum();
        assert!((sum - row.polls_per_second).abs() < 1e-9);
    }
}

#[test]
fn times_become_shares_and_their_means() {
    let view = View::between(&snapshot(0.0, 0), &snapshot(1.0, 10)).unwrap();
    assert_near(view.workers[0].busy, 0.1);
    assert_near(view.workers[1].busy, 0.3);
    assert_near(view.totals.busy, 0.2);
    assert_near(view.workers[0].waiting, 0.9);
    assert_near(view.totals.stages["fan_out"], 0.1);
}

#[test]
fn shares_of_time_sum_to_one_at_most() {
    // Seconds counted in an interval of one second, and the shares of it.
    for (busy, waiting, shares) in [
        (0.25, 0.5, (0.25, 0.5)),
        (0.25, 0.8, (0.25, 0.75)),
        (0.25, 60.0, (0.25, 0.75)),
        (3.0, 1.0, (1.0, 0.0)),
    ] {
        let (before, mut now) = (snapshot(1.0, 0), snapshot(2.0, 0));
        for worker in &mut now.workers {
            worker.worker_seconds = [("busy", busy), ("waiting", waiting)]
                .map(|(state, seconds)| (state.to_owned(), seconds))
                .into();
            worker.stage_seconds = [("fan_out".to_owned(), busy)].into();
        }
        let view = View::between(&before, &now).unwrap();
        for row in view.workers.iter().chain([&view.totals]) {
            assert_eq!((row.busy, row.waiting), shares);
            assert_eq!(row.stages["fan_out"], row.busy);
        }
    }
}

#[test]
fn a_worker_that_took_no_turn_has_waited_unless_it_has_mail() {
    for (mail, waiting) in [(0, 1.0), (3, 0.0)] {
        let (before, mut now) = (snapshot(1.0, 7), snapshot(2.0, 7));
        for worker in &mut now.workers {
            worker.mailbox_messages = mail;
        }
        let view = View::between(&before, &now).unwrap();
        for row in view.workers.iter().chain([&view.totals]) {
            assert_eq!((row.busy, row.waiting), (0.0, waiting));
        }
    }
}

#[test]
fn a_sleeping_worker_counts_as_waiting_in_the_mean_beside_one_that_wakes() {
    // In an idle server, one worker has a session and wakes. The others have taken no turn since
    // their last session left, which the summed counters do not show.
    let (before, mut now) = (snapshot(1.0, 7), snapshot(2.0, 7));
    for worker in &mut now.workers {
        worker.mailbox_messages = 0;
    }
    let awake = &mut now.workers[0];
    awake.turns += 10;
    awake.worker_seconds = [("busy", 0.07 + 0.01), ("waiting", 0.7 + 0.95)]
        .map(|(state, seconds)| (state.to_owned(), seconds))
        .into();
    awake.stage_seconds = [("fan_out".to_owned(), 0.035 + 0.004)].into();
    let view = View::between(&before, &now).unwrap();
    assert_near(view.workers[0].busy, 0.01);
    assert_near(view.workers[0].waiting, 0.95);
    assert_eq!((view.workers[1].busy, view.workers[1].waiting), (0.0, 1.0));
    assert_near(view.totals.busy, 0.005);
    assert_near(view.totals.waiting, 0.975);
    assert_near(view.totals.stages["fan_out"], 0.002);
}

#[test]
fn total_shares_are_the_means_of_the_workers() {
    // Busy and waiting seconds of two workers in an interval of two seconds. A turn of three
    // seconds, and a wait that began before, count as the whole interval at most.
    for [first, second] in [
        [(0.5, 1.5), (0.0, 0.0)],
        [(3.0, 0.0), (0.25, 1.0)],
        [(0.125, 60.0), (0.5, 1.5)],
    ] {
        let (before, mut now) = (snapshot(1.0, 0), snapshot(3.0, 0));
        for (worker, (busy, waiting)) in now.workers.iter_mut().zip([first, second]) {
            worker.turns = u64::from(busy + waiting > 0.0);
            worker.worker_seconds = [("busy", busy), ("waiting", waiting)]
                .map(|(state, seconds)| (state.to_owned(), seconds))
                .into();
            worker.stage_seconds = [("mail".to_owned(), busy)].into();
        }
        let view = View::between(&before, &now).unwrap();
        let mean = |share: fn(&Row) -> f64| view.workers.iter().map(share).sum::<f64>() / 2.0;
        assert_near(view.totals.busy, mean(|row| row.busy));
        assert_near(view.totals.waiting, mean(|row| row.waiting));
        assert_near(view.totals.stages["mail"], view.totals.busy);
        assert!(view.totals.busy + view.totals.waiting <= 1.0);
    }
}

#[test]
fn the_view_of_a_proxy_has_its_own_members_and_no_others() {
    let snapshot = |uptime, counted| Snapshot::parse(&proxy_stats(uptime, counted)).unwrap();
    let (before, mut now) = (snapshot(10.0, 10), snapshot(12.0, 14));
    let view = View::between(&before, &now).unwrap();
    let json = serde_json::to_value(&view).unwrap();
    for absent in ["online", "publishes_per_second", "slowest", "slow", "push"] {
        assert_eq!(json.get(absent), None, "{absent}");
    }
    for absent in [
        "sessions",
        "backlog_bytes",
        "mailbox_bytes",
        "requests_answered_per_second",
    ] {
        assert_eq!(json["totals"].get(absent), None, "{absent}");
    }
    assert_eq!(json["totals"]["connects_per_second"], 24.0);
    assert_eq!(json["totals"]["relayed_bytes_per_second"]["down"], 240.0);
    assert_eq!(json["workers"][0]["refusals_per_second"]["listener"], 2.0);
    assert_eq!(json["workers"][1]["pipes"], 42);
    assert_eq!(json["backends"][1]["state"], "ejected");
    assert_eq!(json["backends"][1]["connects_per_second"], 12.0);
    assert_eq!(json["backends"][2]["connects_failed_per_second"], 6.0);

    // The first backend `a:80` is removed by a reload, so the second one becomes the first.
    now.backends.as_mut().unwrap().remove(0);
    let backends = View::between(&before, &now).unwrap().backends.unwrap();
    assert_eq!(backends[0].connects_per_second, 12.0);
    assert_eq!(
        backends[1].connects_per_second,
        (3 * 3 * 14 - 3 * 10) as f64 / 2.0
    );
}

#[test]
fn snapshots_of_two_runs_or_of_the_same_time_have_no_view() {
    let before = snapshot(10.0, 10);
    assert!(View::between(&before, &before).is_none());
    let mut other = snapshot(12.0, 12);
    other.epoch = "f".to_owned();
    assert!(View::between(&before, &other).is_none());
    // The server was restarted.
    assert!(View::between(&before, &snapshot(2.0, 1)).is_none());
    let mut smaller = snapshot(12.0, 12);
    smaller.workers.pop();
    assert!(View::between(&before, &smaller).is_none());
}

/// Returns a cluster of two nodes. The counters of the second node are three times those of the
/// first, and its report is 0.5 s younger.
fn cluster(seconds: f64, counted: u64) -> Value {
    let node = |name: &str, counted: u64, later: f64| {
        json!({
            "name": name, "incarnation": format!("of {name}"), "state": "ready", "behind": counted,
            "lag_seconds": counted as f64 / 10.0, "silent_seconds": later,
            "uptime_seconds": seconds + later, "workers": 2, "busy_seconds": counted as f64 / 100.0,
            "connections": counted + 1, "sessions": counted, "written": 5 * counted,
            "bytes_written": 50 * counted, "backlog_bytes": counted
        })
    };
    json!({
        "last": 10 * counted,
        "nodes": [node("n1", counted, 0.0), node("n2", 3 * counted, 0.5)]
    })
}

#[test]
fn rates_of_nodes_are_by_their_own_clocks_and_are_summed() {
    let of = |seconds, counted, cluster: Value| {
        let mut stats = stats(seconds, counted);
        stats["cluster"] = cluster;
        Snapshot::parse(&stats).unwrap()
    };
    let before = of(1.0, 10, cluster(1.0, 10));
    let now = of(3.0, 30, cluster(5.0, 30));
    let nodes = View::between(&before, &now).unwrap().nodes.unwrap();
    // The log's rate is by the clock of the server, those of a node by the clock of that node.
    assert_eq!(nodes.entries_per_second, 100.0);
    assert_eq!(nodes.each[0].written_per_second, Some(25.0));
    assert_eq!(nodes.each[1].written_per_second, Some(75.0));
    assert_near(nodes.each[0].busy.expect("it reports"), 0.025);
    let all = &nodes.totals;
    assert_eq!((all.sessions, all.connections), (120, 122));
    assert_eq!(all.written_per_second, Some(100.0));
    assert_eq!((all.behind, all.lag_seconds), (90, 9.0), "the largest");
    assert_eq!((&*all.name, &*all.state), ("all 2", "2 ready"));

    // No rate is known of a node that is new or has sent no report since.
    let mut other = cluster(1.0, 10);
    other["nodes"][0]["incarnation"] = "another".into();
    let later = of(3.0, 30, other);
    let nodes = View::between(&before, &later).unwrap().nodes.unwrap();
    let rates: Vec<_> = nodes.each.iter().map(|it| it.written_per_second).collect();
    assert_eq!(rates, [None, None]);
    assert_eq!(nodes.totals.written_per_second, None);
    let alone = of(3.0, 30, Value::Null);
    assert_eq!(View::between(&before, &alone).unwrap().nodes, None);
}
