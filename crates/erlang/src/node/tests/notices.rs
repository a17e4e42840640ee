//! Notices to processes about presence and lost events, and notifications of the server's observer
//! about processes.

use std::sync::Arc;

use graph::{Change, Id, Key};
use parking_lot::Mutex;
use reactor::SlotKey;
use router::{Event, Payload, Tally};
use server::{ObservedSession, Observer, Presence, PresenceSettings, ProcessEdge, SessionObserver};

use super::*;
use crate::connections::ConnectionId;
use crate::limits::{QUEUED_BYTES_MAX, SEND_BUFFER_BYTES_MAX};
use crate::sim::peer::{atom, hear_messages, list, nil, tuple};
use crate::sim::{Around, EVENT_BYTES_MAX};

/// A node of a server with presence.
struct World {
    sim: SimulatedNode,
    connection: ConnectionId,
    presence: Arc<Presence>,
}

fn id(text: &str) -> Id {
    Id::parse(text).unwrap()
}

impl World {
    fn new(observer: Option<Observer>) -> Self {
        let settings = PresenceSettings {
            delay: Duration::from_secs(10),
            rate: 1000,
            subscribers_max: 5000,
            in_cluster: false,
        };
        let presence = Arc::new(Presence::new(settings, "e"));
        let around = Around {
            presence: Some(Arc::clone(&presence)),
            observer,
            ..Around::default()
        };
        let mut sim = SimulatedNode::with(NAME, &[], around);
        let connection = sim.accept_peer().unwrap();
        sim.receive(connection, &PEER.call());
        sim.run_until_idle();
        assert_eq!(hear(&sim.take_sent(connection)).handshake.len(), 3);
        Self {
            sim,
            connection,
            presence,
        }
    }

    /// Logs in process `number`, and returns the answer.
    fn login(&mut self, of: &str, number: u32, options: &[&str]) -> String {
        let options: Vec<_> = options.iter().map(|option| atom(option)).collect();
        let options = match &*options {
            [] => nil(),
            options => list(options, &nil()),
        };
        let request = tuple(&[atom("login"), atom(of), PEER.pid(number), options]);
        self.sim
            .receive(self.connection, &PEER.call_to("router", &request));
        self.sim.wake().answer_completed();
        let said = self.sim.take_unsent(self.connection);
        let said = hear_messages(&said);
        said.into_iter()
            .find_map(|said| Some(said.split_once("#Ref<peer@h.0.0.1>,")?.1.to_owned()))
            .expect("an answer")
    }

    fn follow(&mut self, subscriber: &str, subjects: impl Iterator<Item = String>) {
        let changes = subjects.map(|subject| Change::Subscribe {
            subscriber: id(subscriber),
            subject: id(&subject),
        });
        self.sim.router.graph().submit(changes.collect(), |_| {});
    }

    fn announce(&self, of: &str) -> Key {
        let key = self.sim.router.graph().hold(&id(of)).unwrap();
        self.presence.online().set_announced(key, true);
        key
    }

    /// Returns the number of waiting notices.
    fn notices(&self) -> usize {
        let notices = &self.sim.node.notices;
        let waiting: usize = notices.waiting.values().map(Vec::len).sum();
        notices.ready.len() + waiting + notices.snapshots.len()
    }

    fn slot(&mut self, nth: u32) -> SlotKey {
        self.sim.node.sessions.at(nth).unwrap().0
    }

    /// Notifies sessions that an id came online or went offline.
    fn edge(&mut self, sessions: &[SlotKey], of: &str, online: bool) {
        let key = self.sim.router.graph().hold(&id(of)).unwrap();
        let id = id(of);
        let edges = sessions.iter().map(|&session| ProcessEdge {
            session,
            number: 7,
            key,
            id: &id,
            online,
        });
        self.sim.wake().tell_presence(edges);
    }

    fn publish(&mut self, subject: &str, bytes: usize) {
        let event = Event {
            subject: id(subject),
            event_type: None,
            payload: Payload::text("x".repeat(bytes).into()),
        };
        self.sim.router.publish(event, &Tally::new());
        self.sim.run_until_idle();
    }

    /// Returns what the processes of the peer have received: the number of each, and the message.
    fn heard(&mut self) -> Vec<String> {
        self.sim.run_until_idle();
        let said = hear_messages(&self.sim.take_sent(self.connection));
        let said = said.into_iter().filter_map(|said| {
            let (control, payload) = said.split_once(" ! ")?;
            let number = control.strip_prefix("{2,'',<peer@h.")?;
            let message = payload.replace(&"x".repeat(EVENT_BYTES_MAX), "X");
            Some(format!("{}: {message}", number.strip_suffix(".0>}")?))
        });
        said.collect()
    }

    fn unblock(&mut self) {
        self.sim.unblock(self.connection);
    }

    /// Publishes until the peer's node, which does not read, has lost events.
    fn lose(&mut self, subject: &str, count: u32) -> usize {
        self.sim.block(self.connection);
        let fits = (SEND_BUFFER_BYTES_MAX + QUEUED_BYTES_MAX) / EVENT_BYTES_MAX;
        let mut reached = 0;
        let slot = self.slot(0);
        while self.sim.node.sessions.get(slot).unwrap().lost < count {
            self.publish(subject, EVENT_BYTES_MAX);
            reached += 1;
            assert!(reached <= fits + count as usize + 2);
        }
        reached - count as usize
    }
}

#[test]
fn a_process_that_asks_gets_a_snapshot_and_changes_of_presence() {
    let mut world = World::new(None);
    world.follow("alice", ["rj", "bob"].map(str::to_owned).into_iter());
    world.announce("rj");
    world.announce("alice");
    world.presence.online().settle();
    assert_eq!(world.login("alice", 7, &["presence"]), "ok}");
    assert_eq!(world.login("alice", 8, &[]), "ok}");
    assert_eq!(world.heard(), ["7: {presence_snapshot,[<<\"rj\">>],whole}"]);
    let both = [world.slot(0), world.slot(1)];
    world.edge(&both, "bob", true);
    world.edge(&both, "rj", false);
    // It gets no notice about itself.
    world.edge(&both, "alice", false);
    let told = [
        "7: {presence,<<\"bob\">>,online}",
        "7: {presence,<<\"rj\">>,offline}",
    ];
    assert_eq!(world.heard(), told);
    // With another id it follows other subjects.
    world.follow("carol", ["dave"].map(str::to_owned).into_iter());
    world.announce("dave");
    assert_eq!(world.login("carol", 7, &[]), "ok}");
    assert_eq!(
        world.heard(),
        ["7: {presence_snapshot,[<<\"rj\">>,<<\"dave\">>],whole}"]
    );
    // Notices were lost: all sessions that asked get a new snapshot.
    world.sim.wake().begin_snapshots();
    assert_eq!(
        world.heard(),
        ["7: {presence_snapshot,[<<\"rj\">>,<<\"dave\">>],whole}"]
    );
    assert_eq!(world.notices(), 0);
}

#[test]
fn no_snapshot_is_sent_before_presence_is_known() {
    let mut world = World::new(None);
    assert_eq!(world.login("alice", 7, &["presence"]), "ok}");
    assert_eq!(world.heard(), Vec::<String>::new());
    world.presence.online().settle();
    world.sim.wake().begin_snapshots();
    assert_eq!(world.heard(), ["7: {presence_snapshot,[],whole}"]);
}

#[test]
fn a_long_snapshot_is_sent_in_parts_with_the_terms_of_the_ids() {
    let mut world = World::new(None);
    let names: Vec<String> = (0..2500).map(|number| format!("u{number}")).collect();
    world.follow("alice", names.clone().into_iter());
    for name in &names {
        world.announce(name);
    }
    let terms = &mut world.sim.node.id_terms;
    terms.remember(world.sim.router.graph(), &id("u7"), &atom("u7"));
    world.presence.online().settle();
    world.login("alice", 7, &["presence"]);
    let heard = world.heard();
    let parts: Vec<_> = heard
        .iter()
        .map(|said| said.rsplit_once(',').unwrap().1)
        .collect();
    assert_eq!(parts, ["first}", "next}", "last}"]);
    let all = heard.concat();
    assert!(all.contains("[u7,") || all.contains(",u7,"));
    for name in names.iter().filter(|name| *name != "u7") {
        assert_eq!(all.matches(&format!("<<\"{name}\">>")).count(), 1, "{name}");
    }
}

#[test]
fn one_turn_sends_notices_to_a_bounded_number_of_processes() {
    let mut world = World::new(None);
    let processes = 1025;
    for number in 0..processes {
        world.login("alice", 10 + number, &["gap"]);
    }
    let slots: Vec<_> = (0..processes).map(|nth| (world.slot(nth), 1)).collect();
    world.sim.wake().note_losses(&slots);
    assert_eq!(world.notices(), 1025);
    world.sim.wake().serve_notices();
    assert_eq!(world.notices(), 1);
    assert!(world.sim.node.is_busy());
}

#[test]
fn one_turn_looks_at_a_bounded_number_of_subscriptions_for_snapshots() {
    let mut world = World::new(None);
    world.follow("alice", (0..5000).map(|number| format!("u{number}")));
    world.presence.online().settle();
    for number in 0..3 {
        world.login("alice", 10 + number, &["presence"]);
    }
    // Of each session that waits, itself and its place.
    for left in [2 + 2, 0] {
        world.sim.wake().serve_notices();
        assert_eq!(world.notices(), left);
    }
}

#[test]
fn a_login_that_asks_for_disabled_presence_is_refused() {
    let (mut sim, connection) = connected();
    let options = list(&[atom("presence")], &nil());
    let request = tuple(&[atom("login"), atom("alice"), PEER.pid(7), options]);
    sim.receive(connection, &PEER.call_to("router", &request));
    sim.run_until_idle();
    let said = hear_messages(&sim.take_sent(connection)).concat();
    assert!(said.contains("--presence"), "{said}");
    assert_eq!(sim.node.sessions.len(), 0);
}

#[test]
fn a_process_whose_node_did_not_read_gets_one_snapshot_instead_of_missed_changes() {
    let mut world = World::new(None);
    world.presence.online().settle();
    world.follow("alice", ["rj", "bob"].map(str::to_owned).into_iter());
    world.login("alice", 7, &["presence"]);
    world.heard();
    world.lose("alice", 0);
    while world.sim.node.connections.has_room(world.connection) {
        world.publish("alice", EVENT_BYTES_MAX);
    }
    world.announce("bob");
    let slot = world.slot(0);
    for online in [true, false].repeat(1000) {
        world.edge(&[slot], "rj", online);
    }
    assert!(world.notices() <= 2);
    world.sim.run_until_idle();
    world.unblock();
    let heard = world.heard();
    let notices: Vec<_> = heard
        .iter()
        .filter(|said| said.contains("presence"))
        .collect();
    assert_eq!(notices, ["7: {presence_snapshot,[<<\"bob\">>],whole}"]);
    assert_eq!(world.notices(), 0);
}

#[test]
fn a_process_gets_the_number_of_lost_events_before_the_next_event() {
    let mut world = World::new(None);
    world.login("alice", 7, &["gap"]);
    world.login("alice", 8, &[]);
    world.heard();
    let fits = world.lose("alice", 3);
    world.unblock();
    world.publish("alice", 1);
    let heard: Vec<_> = world.heard();
    let of = |number: &str| -> Vec<_> {
        let own = heard.iter().filter(|said| said.starts_with(number));
        own.map(String::as_str).collect()
    };
    let told = of("7");
    let gap = told.iter().position(|said| said.contains("router_gap"));
    let gap = gap.expect("it is told");
    assert_eq!(told[gap], "7: {router_gap,3}");
    assert_eq!(told[gap + 1..], ["7: {router_msg,<<\"x\">>}"]);
    assert!(gap.abs_diff(fits) <= 1, "{gap}, {fits}");
    assert!(!of("8").iter().any(|said| said.contains("router_gap")));
    // It is notified even if no event follows, and also of losses before the node's thread.
    let slots = [world.slot(0), world.slot(1)];
    world.sim.wake().note_losses(&slots.map(|slot| (slot, 9)));
    assert_eq!(world.heard(), ["7: {router_gap,9}"]);
    world.sim.wake().note_loss_by_any();
    assert_eq!(world.heard(), ["7: {router_gap,unknown}"]);
    assert_eq!(world.heard(), Vec::<String>::new());
}

#[test]
fn a_process_that_ends_leaves_no_notice() {
    let mut world = World::new(None);
    world.presence.online().settle();
    world.login("alice", 7, &["gap", "presence"]);
    world.heard();
    world.lose("alice", 2);
    let slot = world.slot(0);
    world.edge(&[slot], "rj", true);
    world.sim.wake().close_sessions(&[slot]);
    world.login("bob", 9, &["gap", "presence"]);
    world.unblock();
    let heard = world.heard();
    assert!(!heard.iter().any(|said| said.contains("router_gap")));
    let snapshots = heard.iter().filter(|said| said.contains("snapshot"));
    assert_eq!(
        snapshots.collect::<Vec<_>>(),
        ["9: {presence_snapshot,[],whole}"]
    );
    assert_eq!(world.notices(), 0);
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl SessionObserver for Notes {
    fn session_began(&self, session: &ObservedSession<'_>) {
        let said = format!("+ {:?} {} {}", session.ids, session.transport, session.time);
        self.0.lock().push(said);
    }

    fn session_ended(&self, session: &ObservedSession<'_>, reason: &'static str) {
        let said = format!("- {:?} {reason}", session.ids);
        self.0.lock().push(said);
    }
}

#[test]
fn the_observer_is_notified_once_of_each_process_with_the_reason_of_its_end() {
    let notes = Arc::<Notes>::default();
    let mut world = World::new(Some(Observer::new(notes.clone())));
    world.sim.node.unix_seconds = 1_800_000_000;
    let taken = || std::mem::take(&mut *notes.0.lock());
    world.login("alice", 7, &[]);
    world.login("alice", 7, &["gap"]);
    world.login("bob", 7, &[]);
    assert_eq!(taken(), ["+ [Text(\"alice\")] erlang 1800000000"]);
    let logout = PEER.call_to("router", &tuple(&[atom("logout"), PEER.pid(7)]));
    world.sim.receive(world.connection, &logout);
    world.sim.receive(world.connection, &logout);
    assert_eq!(taken(), ["- [Text(\"alice\"), Text(\"bob\")] peer"]);
    world.login("alice", 7, &[]);
    let slot = world.slot(0);
    world.sim.wake().close_sessions(&[slot]);
    world.login("alice", 7, &[]);
    world.sim.wake().observe_drain();
    world.sim.wake().ended(world.connection);
    world.sim.run_until_idle();
    let ends: Vec<_> = taken()
        .into_iter()
        .filter(|said| said.starts_with('-'))
        .collect();
    let end = |reason| format!("- [Text(\"alice\")] {reason}");
    assert_eq!(ends, ["kicked", "drain", "reset"].map(end));
}
