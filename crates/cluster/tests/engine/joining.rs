//! Joining: the stream is created once, then found, and refused if it cannot be used.

use std::time::{Duration, Instant};

use cluster::{Credentials, Engine, JoinError, Options, SecretText};

use crate::servers::Servers;

/// Time for servers to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Joins as soon as the servers are ready.
pub(crate) fn join(options: &Options, epoch: &str) -> Engine {
    let start = Instant::now();
    loop {
        match Engine::join(options, epoch) {
            Ok(engine) => return engine,
            Err(error) if start.elapsed() > START_TIMEOUT => panic!("{error}"),
            Err(_) => {}
        }
    }
}

#[test]
fn the_second_node_finds_the_log_of_the_first() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let options = servers.options();
    let first = join(&options, "first");
    assert_eq!((first.state().first, first.state().last), (1, 0));
    let second = join(&options, "second");
    assert_eq!((first.epoch(), second.epoch()), ("first", "first"));
    assert_eq!(second.ask().unwrap().bytes_max, 64 << 20);
}

#[test]
fn three_servers_keep_three_copies() {
    let Some(servers) = Servers::start(3, "") else {
        return;
    };
    let engine = join(&servers.options(), "e");
    let state = engine.ask().unwrap();
    assert_eq!(state.followers.len(), 2);
    assert!(state.leader.is_some(), "{state:?}");
}

#[test]
fn an_unsuitable_engine_is_refused_with_an_error() {
    let Some(servers) = Servers::start(1, "max_payload: 8192") else {
        return;
    };
    let options = Options {
        event_bytes_max: 4096,
        ..servers.options()
    };
    drop(join(&options, "e"));

    let refused = Engine::join(&servers.options(), "e").expect_err("64 KiB in 8 KiB");
    assert!(refused.to_string().contains("max_payload"), "{refused}");

    let mut replicated = options.clone();
    replicated.cluster = "other".parse().unwrap();
    replicated.log.replicas = 3;
    let refused = Engine::join(&replicated, "e").expect_err("three copies on one server");
    assert!(refused.to_string().contains("--log-replicas"), "{refused}");

    let mut elsewhere = options;
    elsewhere.servers = vec!["127.0.0.1:1".parse().unwrap()];
    let refused = Engine::join(&elsewhere, "e").expect_err("a closed port");
    assert!(
        refused.to_string().contains("nats://127.0.0.1:1"),
        "{refused}"
    );
}

#[test]
fn credentials_are_used_and_errors_do_not_show_them() {
    let users = "authorization { user: encke, password: right }";
    let Some(servers) = Servers::start(1, users) else {
        return;
    };
    let with = |password: &str| Options {
        credentials: Credentials::Password {
            user: "encke".to_owned(),
            password: SecretText::new(password),
        },
        ..servers.options()
    };
    drop(join(&with("right"), "e"));
    for options in [with("wr0ng"), servers.options()] {
        let refused = Engine::join(&options, "e").expect_err("not the password");
        assert!(matches!(refused, JoinError::Unauthorized(_)), "{refused}");
        assert!(!refused.to_string().contains("wr0ng"), "{refused}");
    }
}

#[test]
fn a_server_without_jetstream_is_an_error() {
    let Some(servers) = Servers::start_without_jetstream() else {
        return;
    };
    let start = Instant::now();
    loop {
        match Engine::join(&servers.options(), "e") {
            Err(JoinError::NoJetStream(_)) => return,
            Err(_) if start.elapsed() < START_TIMEOUT => {}
            other => panic!("{other:?}"),
        }
    }
}
