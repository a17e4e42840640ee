//! Admin endpoints of a fake program.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use reactor::{MetricDescription, MetricKind, Snapshot};
use serde_json::json;

use super::*;
use crate::tests::fake::{ask, run};

/// A program of two workers, the second with ten times the metrics of the first.
#[derive(Debug, Default)]
struct Fake {
    backends: Option<Vec<BackendReport>>,
    ending: Arc<AtomicBool>,
}

impl AdminSource for Fake {
    fn program(&self) -> &'static str {
        "fake"
    }

    fn snapshot(&self) -> Snapshot {
        let metric = |name, label, kind| MetricDescription {
            name,
            label,
            kind,
            help: "Counted.",
        };
        let here = Some(("at", "here"));
        let there = Some(("at", "there"));
        Snapshot {
            metrics: vec![
                metric("connections", None, MetricKind::Gauge),
                metric("lost", here, MetricKind::Counter),
                metric("lost", there, MetricKind::Counter),
                metric("stage_seconds", here, MetricKind::Time),
            ],
            workers: vec![vec![1, 2, 3, 1_500_000_000], vec![10, 20, 30, 0]],
        }
    }

    fn is_draining(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    fn backends(&self) -> Option<Backends> {
        Some(Backends {
            states: &["well", "ejected", "unwell"],
            reports: self.backends.clone()?,
        })
    }
}

fn backend(name: &str, state: &'static str, connects: u64) -> BackendReport {
    BackendReport {
        listener: SocketAddr::from(([127, 0, 0, 1], 90)),
        backend: name.to_owned(),
        address: SocketAddr::from(([127, 0, 0, 1], 80)),
        state,
        connections: 7,
        connects,
        connects_failed: 2,
    }
}

fn http(program: Fake, token: Option<&str>) -> Router {
    let tokens = token.map_or_else(Tokens::default, |token| Tokens::single(token).unwrap());
    let admin = Arc::new(Admin {
        source: Box::new(program),
        epoch: "e".to_owned(),
        started: Instant::now(),
        listening: Arc::default(),
        tokens: LiveTokens::new(tokens, true),
    });
    super::http(admin)
}

#[test]
fn stats_have_the_form_of_the_servers() {
    run(async {
        let stats = ask(&http(Fake::default(), None), "GET", "/v1/stats", &[], "").await;
        let stats = stats.json();
        assert_eq!(stats["program"], "fake");
        assert_eq!(stats["epoch"], "e");
        assert_eq!(stats["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(stats["draining"], false);
        assert!(stats["uptime_seconds"].is_f64());
        assert_eq!(stats["control"]["connections"], 0);
        assert_eq!(
            stats["totals"],
            json!({
                "connections": 11, "lost": {"here": 22, "there": 33},
                "stage_seconds": {"here": 1.5}
            })
        );
        assert_eq!(stats["workers"][1]["lost"]["there"], 30);
        assert_eq!(stats.get("backends"), None, "it has none to tell of");
        assert_eq!(stats.get("online"), None, "nor sessions");
    });
}

#[test]
fn backends_are_listed_one_by_one_and_summed_for_prometheus_where_they_share_a_name() {
    run(async {
        let program = || Fake {
            backends: Some(vec![
                backend("a:80", "well", 3),
                backend("b:80", "ejected", 4),
                backend("a:80", "unwell", 5),
            ]),
            ..Fake::default()
        };
        let stats = ask(&http(program(), None), "GET", "/v1/stats", &[], "").await;
        let stats = stats.json();
        assert_eq!(
            stats["backends"][1],
            json!({
                "listener": "127.0.0.1:90", "backend": "b:80", "address": "127.0.0.1:80",
                "state": "ejected", "connections": 7, "connects": 4, "connects_failed": 2
            })
        );
        assert_eq!(stats["backends"].as_array().unwrap().len(), 3);

        let metrics = ask(&http(program(), None), "GET", "/metrics", &[], "").await;
        let a = r#"listener="127.0.0.1:90",backend="a:80""#;
        let b = r#"listener="127.0.0.1:90",backend="b:80""#;
        for line in [
            r#"encke_build_info{program="fake",version="0.1.0",epoch="e"} 1"#.to_owned(),
            "encke_draining 0.0".to_owned(),
            "encke_control_connections 0.0".to_owned(),
            r#"encke_connections{worker="1"} 10.0"#.to_owned(),
            r#"encke_lost_total{at="there"} 33"#.to_owned(),
            r#"encke_stage_seconds_total{at="here"} 1.5"#.to_owned(),
            format!("encke_backend_state{{{a},state=\"well\"}} 1.0"),
            format!("encke_backend_state{{{a},state=\"unwell\"}} 1.0"),
            format!("encke_backend_state{{{b},state=\"well\"}} 0.0"),
            format!("encke_backend_state{{{b},state=\"ejected\"}} 1.0"),
            format!("encke_backend_connections{{{a}}} 14.0"),
            format!("encke_backend_connects_total{{{a}}} 8"),
            format!("encke_backend_connects_failed_total{{{b}}} 2"),
        ] {
            let found = metrics.text.lines().filter(|found| *found == line).count();
            assert_eq!(found, 1, "{line} in\n{}", metrics.text);
        }
        assert!(metrics.text.ends_with("# EOF\n"));
    });
}

#[test]
fn the_guard_is_that_of_the_control_api() {
    run(async {
        let closed = http(Fake::default(), Some("s3cret-of-16-bytes"));
        let open = http(Fake::default(), None);
        let foreign = [("origin", "http://example.org")];
        let token = [("authorization", "Bearer s3cret-of-16-bytes")];
        for path in ["/v1/stats", "/metrics", "/nowhere"] {
            assert_eq!(ask(&closed, "GET", path, &[], "").await.status, 401);
            assert_eq!(ask(&open, "GET", path, &foreign, "").await.status, 403);
        }
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(ask(&closed, "GET", path, &[], "").await.status, 200);
        }
        let let_in = ask(&closed, "GET", "/v1/stats", &token, "").await;
        assert_eq!(let_in.status, 200);
    });
}

#[test]
fn nothing_can_be_changed() {
    run(async {
        let http = http(Fake::default(), None);
        let publish = ask(&http, "POST", "/v1/publish/rj", &[], "x").await;
        assert_eq!(publish.status, 404);
        assert!(publish.text.contains("the paths are /v1/stats, /metrics"));
        assert_eq!(ask(&http, "POST", "/v1/stats", &[], "x").await.status, 405);
        let misspelt = ask(&http, "GET", "/v1/stats?x=1", &[], "").await;
        assert_eq!(misspelt.status, 400);
    });
}

#[test]
fn readiness_ends_when_draining_begins_and_health_does_not() {
    run(async {
        let ending = Arc::new(AtomicBool::new(false));
        let program = Fake {
            ending: ending.clone(),
            ..Fake::default()
        };
        let http = http(program, None);
        assert_eq!(ask(&http, "GET", "/readyz", &[], "").await.status, 200);
        ending.store(true, Ordering::Relaxed);
        assert_eq!(ask(&http, "GET", "/readyz", &[], "").await.status, 503);
        assert_eq!(ask(&http, "GET", "/healthz", &[], "").await.status, 200);
        let stats = ask(&http, "GET", "/v1/stats", &[], "").await.json();
        assert_eq!(stats["draining"], true);
    });
}

#[test]
fn it_listens_until_it_is_stopped_and_needs_a_token_beyond_loopback() {
    let config = |address: [u8; 4]| AdminConfig {
        listen: SocketAddr::from((address, 0)),
        token: None,
        epoch: "e".to_owned(),
    };
    let begin = |config| serve_admin(config, Fake::default());
    let control = begin(config([127, 0, 0, 1])).unwrap();
    let address = control.address();
    assert!(TcpStream::connect(address).is_ok());
    control.stop();
    assert!(TcpStream::connect(address).is_err());
    let error = begin(config([0, 0, 0, 0])).unwrap_err();
    assert!(matches!(error, StartError::TokenMissing { .. }), "{error}");
}
