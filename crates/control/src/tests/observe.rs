use std::cell::RefCell;
use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use axum::body::to_bytes;
use axum::http::HeaderMap;
use graph::Graph;
use history::Limits;
use reactor::MetricKind;
use router::{Event, Payload, Recorder, Tally};
use serde_json::json;
use server::sim::SimServer;
use server::{LiveSettings, Metric};

use super::fake::{Answer, Fake, SMALL, ask, run, server_stats};
use crate::api::Api;
use crate::live_tokens::LiveTokens;
use crate::metrics::{self, exposition};
use crate::routes;
use crate::stats::Stats;
use crate::tokens::Tokens;

/// Returns the metrics of an API whose workers have counted something of everything.
async fn scraped(api: &Api) -> String {
    let answer = exposition(&HeaderMap::new(), |text| {
        metrics::write(text, api, &server_stats());
    });
    let text = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(text.into()).unwrap()
}

#[test]
fn sessions_are_inspected_and_closed() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        let sessions = HashSet::from([fake.login("rj", 0, 5), fake.login("rj", 3, 9)]);
        let answer = ask(&http, "GET", "/v1/sessions/rj", &[], "").await.json();
        assert_eq!(answer["id"], "rj");
        assert_eq!((&answer["total"], &answer["shown"]), (&json!(2), &json!(2)));
        let expected = json!({
            "session": "3/9#0", "ids": [7, "rj"], "transport": "sse", "age_seconds": 1.509,
            "peer": "10.0.0.1:5", "worker": 3, "backlog_frames": 1, "backlog_bytes": 2,
            "bytes_acknowledged": 3, "bytes_unacknowledged": null
        });
        assert_eq!(answer["sessions"][0], expected);
        assert_eq!(answer["sessions"][1]["worker"], 0);

        let answer = ask(&http, "DELETE", "/v1/sessions/rj", &[], "").await;
        assert_eq!(answer.json(), json!({"closed": 2}));
        assert_eq!(fake.closed().into_iter().collect::<HashSet<_>>(), sessions);
        let nobody = ask(&http, "GET", "/v1/sessions/4", &[], "").await;
        assert_eq!(
            nobody.json(),
            json!({"id": 4, "total": 0, "shown": 0, "sessions": []})
        );
    });
}

#[test]
fn sessions_that_are_not_shown_are_counted() {
    run(async {
        let fake = Fake::new();
        for slot in 0..5 {
            fake.login("rj", 0, slot);
        }
        fake.inspected_max.store(3, Ordering::Relaxed);
        let answer = ask(&fake.http(), "GET", "/v1/sessions/rj", &[], "").await;
        let answer = answer.json();
        assert_eq!((&answer["total"], &answer["shown"]), (&json!(5), &json!(3)));
        assert_eq!(answer["sessions"].as_array().unwrap().len(), 3);
    });
}

#[test]
fn a_worker_that_does_not_report_is_waited_for_two_seconds() {
    run(async {
        let fake = Fake::new();
        fake.login("rj", 0, 5);
        fake.deaf.store(true, Ordering::Relaxed);
        let before = tokio::time::Instant::now();
        let answer = ask(&fake.http(), "GET", "/v1/sessions/rj", &[], "").await;
        assert_eq!(answer.status, 504);
        assert!(answer.text.contains("0 of 1 sessions"), "{}", answer.text);
        assert_eq!(before.elapsed().as_millis() / 100, 20);
    });
}

/// A server with two workers, each with a session that reads nothing: that of worker 1 is owed
/// more.
struct SlowServer {
    server: RefCell<SimServer>,
    http: axum::Router,
}

impl SlowServer {
    fn new() -> Self {
        let live = LiveSettings::default();
        let history = Recorder::new(Limits {
            bytes: 1 << 20,
            age_seconds: None,
        });
        let graph = Arc::new(Graph::memory());
        let mut server = SimServer::new(graph, "e", 2, live, history, None, 0);
        for (worker, id) in ["a", "b"].into_iter().enumerate() {
            let request = format!("GET /events/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            server.connect(worker, request.as_bytes(), 1000, 1000);
        }
        server.rest();
        let handle = server.handle().clone();
        for (id, bytes) in [("a", 5_000), ("b", 9_000)] {
            let event = Event {
                subject: id.parse().unwrap(),
                event_type: None,
                payload: Payload::text("x".repeat(bytes).into()),
            };
            handle.router().publish(event, &Tally::new());
        }
        server.rest();
        let tokens = LiveTokens::new(Tokens::default(), true);
        Self {
            server: RefCell::new(server),
            http: routes::router(Arc::new(Api::new(handle, tokens, 100, SMALL))),
        }
    }

    /// Asks while the workers take their turns.
    async fn ask(&self, path: &str) -> Answer {
        let mut asked = pin!(ask(&self.http, "GET", path, &[], ""));
        poll_fn(|context| {
            let before = asked.as_mut().poll(context);
            self.server.borrow_mut().rest();
            match before {
                Poll::Pending => asked.as_mut().poll(context),
                Poll::Ready(answer) => Poll::Ready(answer),
            }
        })
        .await
    }
}

#[test]
fn the_slowest_are_those_of_all_workers_that_are_owed_most() {
    run(async {
        let slow = SlowServer::new();
        let http = slow.http.clone();
        let answer = slow.ask("/v1/slowest?limit=1").await;
        let answer = answer.json();
        let sessions = answer["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions[0]["worker"], 1);
        let both = slow.ask("/v1/slowest").await.json();
        let owed = |nth: usize| both["sessions"][nth]["backlog_bytes"].as_u64().unwrap();
        assert_eq!(sessions[0]["backlog_bytes"], owed(0));
        assert!(owed(0) > owed(1) && owed(1) > 0, "{both}");
        for limit in ["0", "101", "x"] {
            let path = format!("/v1/slowest?limit={limit}");
            let refused = ask(&http, "GET", &path, &[], "").await;
            assert_eq!(refused.status, 400);
            assert!(refused.text.contains("from 1 to 100"), "{}", refused.text);
        }
        // The workers take no turn.
        let late = ask(&http, "GET", "/v1/slowest?limit=1", &[], "").await;
        assert_eq!(late.status, 504);
    });
}

#[test]
fn stats_name_every_figure() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("rj", 0, 5);
        fake.subscribe("1", "2");
        ask(&http, "POST", "/v1/publish/rj", &[], "x").await;
        let stats = ask(&http, "GET", "/v1/stats", &[], "").await.json();
        assert_eq!(stats["program"], "serve");
        assert_eq!(stats["epoch"], "e");
        assert_eq!(stats["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(stats["draining"], false);
        assert_eq!(stats["online"], 1);
        assert_eq!(stats["graph"]["edges"], 1);
        assert_eq!(
            stats["published"],
            json!({"publish": 1, "send": 0, "batch": 0, "client": 0})
        );
        assert!(stats["uptime_seconds"].is_f64());
        let stats = serde_json::to_value(Stats::of(&fake.api(), server_stats())).unwrap();
        assert_eq!(stats["slow"], json!([{"id": "rj", "count": 3}]));
        for &metric in Metric::ALL {
            let described = metric.describe();
            let value = |metrics: &serde_json::Value| match described.label {
                None => metrics[described.name].clone(),
                Some((_, label)) => metrics[described.name][label].clone(),
            };
            let told = |number: u64| match described.kind {
                MetricKind::Time => json!(number as f64 / 1e9),
                _ => json!(number),
            };
            let number = metric as u64 + 1;
            let name = described.name;
            assert_eq!(value(&stats["totals"]), told(number * 101), "{name}");
            assert_eq!(value(&stats["workers"][1]), told(number * 100), "{name}");
        }
    });
}

#[test]
fn metrics_name_every_figure_once_and_end_as_open_metrics_do() {
    run(async {
        let fake = Fake::new();
        let api = Arc::new(fake.api());
        let http = routes::router(Arc::clone(&api));
        fake.login("rj", 0, 5);
        ask(&http, "POST", "/v1/publish/rj", &[], "x").await;
        ask(&http, "POST", "/v1/publish/nobody", &[], "x").await;
        let two = "{\"subject\":1,\"data\":1}\n".repeat(2);
        ask(&http, "POST", "/v1/publish?receipts=summary", &[], two).await;
        let answer = ask(&http, "GET", "/metrics", &[], "").await;
        assert!(
            answer
                .header("content-type")
                .starts_with("application/openmetrics-text")
        );
        let delivered = "\nencke_deliveries_total{outcome=\"written\"} 1\n";
        assert!(answer.text.contains(delivered), "{}", answer.text);
        let text = scraped(&api).await;
        for line in [
            "# TYPE encke_deliveries counter",
            "encke_publishes_total{verb=\"publish\"} 2",
            "encke_publishes_total{verb=\"batch\"} 2",
            "encke_publish_fan_out_ids_bucket{le=\"0.0\"} 3",
            "encke_publish_fan_out_ids_bucket{le=\"1.0\"} 4",
            "encke_publish_fan_out_ids_bucket{le=\"+Inf\"} 4",
            "encke_publish_fan_out_ids_count 4",
            "encke_publish_fan_out_ids_sum 1.0",
            "encke_publish_latency_seconds_count 2",
            "encke_publish_latency_seconds_bucket{le=\"+Inf\"} 2",
            "encke_delivery_latency_seconds_bucket{le=\"0.00005\"} 0",
            "encke_delivery_latency_seconds_bucket{le=\"0.0001\"} 1",
            "encke_delivery_latency_seconds_bucket{le=\"10.0\"} 1",
            "encke_delivery_latency_seconds_bucket{le=\"+Inf\"} 2",
            "encke_delivery_latency_seconds_count 2",
            "encke_delivery_latency_seconds_sum 20.00006",
            "encke_access_log_lines_total{outcome=\"written\"} 4",
            "encke_access_log_lines_total{outcome=\"dropped\"} 2",
            "encke_online_ids 1.0",
            "encke_publishes_pending 0.0",
            "encke_connections{worker=\"0\"} 1.0",
            "encke_connections{worker=\"1\"} 100.0",
            "encke_build_info{program=\"serve\",version=\"0.1.0\",epoch=\"e\"} 1",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
        for &metric in Metric::ALL {
            let described = metric.describe();
            let suffix = match described.kind {
                MetricKind::Counter | MetricKind::Time => "_total",
                MetricKind::Gauge => "",
                MetricKind::Bucket => "_bucket",
            };
            let name = format!("encke_{}{suffix}", described.name);
            let expected = match described.label {
                Some((_, "256")) => format!("{name}{{le=\"+Inf\"}} "),
                Some(("events", range)) => {
                    let (_, last) = range.rsplit_once('-').unwrap_or(("", range));
                    format!("{name}{{le=\"{last}.0\"}} ")
                }
                Some((label, value)) if text.contains(&format!("\"{value}\",worker=")) => {
                    format!("{name}{{{label}=\"{value}\",worker=\"0\"}} ")
                }
                Some((label, value)) => format!("{name}{{{label}=\"{value}\"}} "),
                None if text.contains(&format!("{name}{{worker=")) => {
                    format!("{name}{{worker=\"0\"}} ")
                }
                None => format!("{name} "),
            };
            let found = text
                .lines()
                .filter(|line| line.starts_with(&expected))
                .count();
            assert_eq!(found, 1, "{expected}");
            let helps = text
                .matches(&format!("# HELP encke_{} ", described.name))
                .count();
            assert_eq!(helps, 1, "{name}");
        }
        assert!(text.ends_with("# EOF\n"));
    });
}

#[test]
fn polls_are_a_histogram_of_events() {
    run(async {
        let text = scraped(&Fake::new().api()).await;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<f64>().ok())
                .unwrap_or_else(|| panic!("{name} is not in\n{text}"))
        };
        let of = |metric: Metric| 101.0 * (metric as usize + 1) as f64;
        let two = of(Metric::Polls0) + of(Metric::Polls1) + of(Metric::Polls2);
        assert_eq!(value("encke_events_per_poll_bucket{le=\"3.0\"}"), two);
        let all = value("encke_events_per_poll_bucket{le=\"+Inf\"}");
        assert_eq!(value("encke_events_per_poll_count"), all);
        assert_eq!(value("encke_events_per_poll_sum"), of(Metric::Signals));
    });
}

#[test]
fn readiness_begins_when_clients_are_taken() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.handle.pause();
        let answer = ask(&http, "GET", "/readyz", &[], "").await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
        assert_eq!(ask(&http, "GET", "/livez", &[], "").await.status, 200);
        fake.handle.resume();
        assert_eq!(ask(&http, "GET", "/readyz", &[], "").await.status, 200);
    });
}

#[test]
fn readiness_ends_when_draining_begins_and_health_does_not() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        assert_eq!(ask(&http, "GET", "/readyz", &[], "").await.status, 200);
        fake.handle.drain();
        let answer = ask(&http, "GET", "/readyz", &[], "").await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
        assert_eq!(ask(&http, "GET", "/healthz", &[], "").await.status, 200);
    });
}
