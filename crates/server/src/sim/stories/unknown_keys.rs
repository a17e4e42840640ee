//! Tokens whose key is not known yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use auth::KeySet;
use parking_lot::Mutex;

use super::world_with;
use crate::limits::Limits;
use crate::settings::LiveSettings;
use crate::sim::tokens::{BEGIN, bearer, policy, settings, signed};
use crate::sim::world::World;
use crate::stats::Metric;

const NEW_SECRET: &[u8] = b"the next secret of thirty-two bytes!";

type Done = Box<dyn FnOnce() + Send>;

/// A world whose fetches of key sets end when the test says so.
struct Keys {
    world: World,
    under_way: Arc<Mutex<Vec<Done>>>,
    fetches: Arc<AtomicUsize>,
}

/// Fields of a request whose token is signed with the new key.
fn fields() -> String {
    let claims = format!(r#"{{"iat":{BEGIN},"exp":{},"sub":"alice"}}"#, BEGIN + 3600);
    bearer(&signed(
        r#"{"alg":"HS256","kid":"next"}"#,
        &claims,
        NEW_SECRET,
    ))
}

impl Keys {
    fn new() -> Self {
        let keys = Self {
            world: world_with(settings(policy())),
            under_way: Arc::default(),
            fetches: Arc::default(),
        };
        let (under_way, fetches) = (Arc::clone(&keys.under_way), Arc::clone(&keys.fetches));
        keys.world.handle.fetch_keys_with(Box::new(move |done| {
            fetches.fetch_add(1, Ordering::Relaxed);
            under_way.lock().push(done);
        }));
        keys
    }

    fn get(&mut self) -> usize {
        let client = self.world.request("GET", "/events", &fields());
        self.world.turn();
        client
    }

    /// The fetch ends, and has found the new key or not.
    fn end(&mut self, has_found: bool) {
        if has_found {
            let keys = Arc::new(KeySet::from_secret(NEW_SECRET).unwrap());
            self.world.handle.reload(|live| LiveSettings {
                policy: Arc::new((*live.policy).clone().with_keys("next", keys)),
                ..live.clone()
            });
        }
        let done = self.under_way.lock().pop().expect("a fetch is under way");
        done();
        self.world.run_until_idle();
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::Relaxed)
    }
}

#[test]
fn requests_with_an_unknown_key_wait_for_one_fetch_and_go_on() {
    let mut keys = Keys::new();
    let clients: Vec<_> = (0..Limits::SMALL.awaiting_keys_max)
        .map(|_| keys.get())
        .collect();
    assert_eq!(keys.fetches(), 1);
    for &client in &clients {
        assert_eq!(keys.world.text(client), "");
    }
    let beyond = keys.get();
    assert_eq!(keys.world.status(beyond), 401, "no more may wait");
    keys.end(true);
    for client in clients {
        assert_eq!(keys.world.status(client), 200);
    }
    let known = keys.get();
    assert_eq!(keys.world.status(known), 200);
    assert_eq!(keys.fetches(), 1);
}

#[test]
fn an_unknown_key_is_fetched_once_in_thirty_seconds() {
    let mut keys = Keys::new();
    let first = keys.get();
    keys.end(false);
    assert_eq!(keys.world.status(first), 401);
    for second in 0..29 {
        let client = keys.get();
        assert_eq!(keys.world.status(client), 401, "after {second} s");
        keys.world.pass(Duration::from_secs(1));
    }
    assert_eq!(keys.fetches(), 1);
    keys.world.pass(Duration::from_secs(2));
    keys.get();
    assert_eq!(keys.fetches(), 2);
}

#[test]
fn a_fetch_that_hangs_holds_no_request_for_long() {
    let mut keys = Keys::new();
    let client = keys.get();
    keys.world.pass(Duration::from_secs(4));
    assert_eq!(keys.world.text(client), "");
    keys.world.pass(Duration::from_secs(2));
    assert_eq!(keys.world.status(client), 401);
    assert_eq!(keys.world.metric(Metric::DeniedUnknownKey), 1);
    keys.world.net.borrow_mut().end(client);
    keys.world.pass(Duration::from_secs(3));
    // It ends after all, when no request waits.
    keys.end(true);
    keys.world.assert_empty();
}

#[test]
fn requests_that_gave_up_waiting_make_room_for_others() {
    let mut keys = Keys::new();
    for _ in 0..Limits::SMALL.awaiting_keys_max {
        keys.get();
    }
    keys.world.pass(Duration::from_secs(35));
    let client = keys.get();
    assert_eq!(keys.world.text(client), "", "it waits for another fetch");
    assert_eq!(keys.fetches(), 2);
}

#[test]
fn a_client_that_leaves_while_its_key_is_fetched_is_forgotten() {
    let mut keys = Keys::new();
    let client = keys.get();
    keys.world.net.borrow_mut().break_off(client);
    keys.end(true);
    keys.world.run_until_idle();
    assert!(keys.world.is_closed(client));
    keys.world.assert_empty();
}

#[test]
fn a_request_that_waited_is_followed_by_what_was_pipelined_behind_it() {
    let mut keys = Keys::new();
    let head = format!(
        "HEAD /events HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        fields()
    );
    let requests = format!("{head}GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let room = usize::MAX;
    let client = keys
        .world
        .net
        .borrow_mut()
        .connect(requests.as_bytes(), room, room);
    keys.world.turn();
    assert_eq!(keys.world.text(client), "");
    keys.end(true);
    let text = keys.world.text(client);
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert!(text.contains("HTTP/1.1 404 "), "{text}");
}

#[test]
fn without_a_fetcher_an_unknown_key_is_refused_at_once() {
    let mut world = world_with(settings(policy()));
    let client = world.request("GET", "/events", &fields());
    world.turn();
    assert_eq!(world.status(client), 401);
}
