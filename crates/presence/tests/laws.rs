//! Properties of presence, checked against a model that keeps only sessions and the time.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use graph::Key;
use presence::{Cause, Due, Edge, Millis, NodeName, Online, Outlet, QUEUE_MAX, Tracker};
use proptest::prelude::*;

const DELAY: Duration = Duration::from_secs(10);

const fn key(number: u32) -> Key {
    Key::from_cursor(number)
}

/// A client that is subscribed to every id, the references that the tracker holds, and the messages
/// to nodes and to the backend.
#[derive(Default)]
struct World {
    /// Ids that the client knows to be online.
    known: BTreeSet<u32>,
    /// Ids that a snapshot would have.
    announced: BTreeSet<u32>,
    references: BTreeMap<u32, i64>,
    edges: usize,
    bulk_edges: usize,
    /// Messages that each edge costs.
    cost: u64,
    to_nodes: Vec<Edge>,
    /// Edges that the backend gets, with their causes.
    caused: Vec<(NodeName, Edge)>,
}

impl Outlet for World {
    fn release(&mut self, key: Key) {
        let references = self.references.entry(key.number()).or_default();
        *references -= 1;
        assert!(*references >= 0, "{key:?} was released twice");
    }

    fn tell(&mut self, edge: Edge, is_bulk: bool) -> u64 {
        let key = edge.key.number();
        let sets: &mut [&mut BTreeSet<u32>] = match is_bulk {
            true => &mut [&mut self.announced],
            false => &mut [&mut self.announced, &mut self.known],
        };
        for set in sets {
            match edge.online {
                true => set.insert(key),
                false => set.remove(&key),
            };
        }
        match is_bulk {
            true => self.bulk_edges += 1,
            false => self.edges += 1,
        }
        self.cost
    }

    fn tell_nodes(&mut self, edge: Edge) {
        self.to_nodes.push(edge);
    }

    fn caused(&mut self, cause: Cause, edge: Edge) {
        self.caused.push((cause.node, edge));
    }
}

struct Run {
    tracker: Tracker,
    online: Arc<Online>,
    world: World,
    now: u64,
    /// `Ok` for ids that have a session; for others, the time at which they lost their last one.
    sessions: BTreeMap<u32, Result<(), u64>>,
    hidden: BTreeSet<u32>,
}

impl Run {
    fn new(rate: u64) -> Self {
        let online = Arc::new(Online::default());
        Self {
            tracker: Tracker::new(Arc::clone(&online), DELAY, rate),
            online,
            world: World::default(),
            now: 0,
            sessions: BTreeMap::new(),
            hidden: BTreeSet::new(),
        }
    }

    /// Returns a run whose first bulk period is over.
    fn settled(rate: u64) -> Self {
        let mut run = Self::new(rate);
        run.pass(DELAY.as_millis() as u64);
        assert!(run.tracker.is_settled() && !run.tracker.is_bulk());
        run
    }

    fn come(&mut self, number: u32) {
        if self.sessions.insert(number, Ok(())) != Some(Ok(())) {
            self.tracker.moved(key(number), true, &mut self.world);
        }
    }

    fn leave(&mut self, number: u32) {
        if self.sessions.get(&number) == Some(&Ok(())) {
            self.sessions.insert(number, Err(self.now));
            *self.world.references.entry(number).or_default() += 1;
            self.tracker.moved(key(number), false, &mut self.world);
        }
    }

    /// The id has a session that begins and ends between two looks, if it has no other one.
    fn flash(&mut self, number: u32) {
        if self.sessions.get(&number) != Some(&Ok(())) {
            self.sessions.insert(number, Err(self.now));
            *self.world.references.entry(number).or_default() += 1;
            self.tracker.moved(key(number), false, &mut self.world);
        }
    }

    fn hide(&mut self, number: u32, is_hidden: bool) {
        match is_hidden {
            true => self.hidden.insert(number),
            false => self.hidden.remove(&number),
        };
        self.online.set_hidden(key(number), is_hidden);
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 100 {
            self.now += 100;
            if self.tracker.advance(Millis(self.now), &mut self.world) == Due::Snapshots {
                self.world.known = self.world.announced.clone();
            }
        }
    }

    /// Returns the ids that are online by definition, hidden or not.
    fn model(&self) -> BTreeSet<u32> {
        let delay = DELAY.as_millis() as u64;
        let stays = |state: &Result<(), u64>| {
            state.is_ok_and(|()| true) || state.is_err_and(|left| self.now < left + delay)
        };
        let online = self.sessions.iter().filter(|(_, state)| stays(state));
        online.map(|(&number, _)| number).collect()
    }

    fn check_online(&self) {
        let model = self.model();
        for &number in self.sessions.keys() {
            let is_online = self.online.is_online(key(number));
            assert_eq!(
                is_online,
                model.contains(&number),
                "{number} at {}",
                self.now
            );
        }
        assert_eq!(self.online.count(), model.len());
    }

    /// Lets all delays and queues end, and checks that the client knows who is online.
    fn check_quiet(&mut self) {
        self.pass(200_000);
        let visible: BTreeSet<u32> = self.model().difference(&self.hidden).copied().collect();
        assert_eq!(self.world.known, visible, "what the client knows");
        assert_eq!(self.world.announced, visible, "what a snapshot says");
        assert_eq!(self.tracker.leaving() + self.tracker.waiting(), 0);
        let held = self.world.references.values().sum::<i64>();
        assert_eq!(held, 0, "references that were not given back");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Come(u32),
    Leave(u32),
    Flash(u32),
    Hide(u32, bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u32).prop_map(Step::Come),
        4 => (0..6_u32).prop_map(Step::Leave),
        2 => (0..6_u32).prop_map(Step::Flash),
        1 => (0..6_u32, any::<bool>()).prop_map(|(id, hidden)| Step::Hide(id, hidden)),
        4 => (1..130_u64).prop_map(|tenths| Step::Pass(tenths * 100)),
    ]
}

proptest! {
    #[test]
    fn when_nothing_is_pending_clients_know_who_is_online(
        steps in proptest::collection::vec(step(), 1..80),
        rate in prop_oneof![Just(1_u64), Just(10), Just(1_000_000)],
        cost in 0..30_u64,
    ) {
        let mut run = Run::new(rate);
        run.world.cost = cost;
        for step in steps {
            match step {
                Step::Come(number) => run.come(number),
                Step::Leave(number) => run.leave(number),
                Step::Flash(number) => run.flash(number),
                Step::Hide(number, is_hidden) => run.hide(number, is_hidden),
                Step::Pass(millis) => run.pass(millis),
            }
            run.check_online();
        }
        run.check_quiet();
    }
}

#[test]
fn an_id_that_returns_within_the_delay_causes_no_edge_however_often() {
    let mut run = Run::settled(1_000);
    run.come(7);
    run.pass(100);
    assert_eq!(run.world.edges, 1);
    for _ in 0..100 {
        run.leave(7);
        run.pass(9_900);
        run.come(7);
        run.pass(100);
    }
    assert_eq!(run.world.edges, 1);
    assert!(run.tracker.leaving() <= 1);
    run.leave(7);
    run.pass(9_900);
    assert_eq!(run.world.edges, 1, "early");
    run.pass(100);
    assert_eq!(run.world.edges, 2, "late");
    run.check_quiet();
}

#[test]
fn an_id_that_comes_and_goes_between_two_looks_stays_for_the_delay() {
    let mut run = Run::settled(1_000);
    run.come(7);
    run.pass(100);
    run.leave(7);
    for _ in 0..3 {
        run.pass(9_900);
        assert_eq!(run.world.edges, 1, "gone early");
        run.flash(7);
    }
    run.pass(10_000);
    assert_eq!(run.world.edges, 2, "gone late");
    run.check_quiet();
}

#[test]
fn a_bulk_period_of_eight_delays_ends_when_little_has_changed_for_a_delay() {
    let mut run = Run::settled(u64::MAX >> 20);
    let per_delay = QUEUE_MAX as u32 + 1;
    let mut ids = 0..;
    let mut crowd = |run: &mut Run| {
        for id in ids.by_ref().take(per_delay as usize) {
            run.tracker.moved(key(id), true, &mut run.world);
        }
    };
    crowd(&mut run);
    // One delay, two and four are over, and a delay of the eight.
    for _ in 0..1 + 2 + 4 + 1 {
        run.pass(5_000);
        crowd(&mut run);
        run.pass(5_000);
        assert!(run.tracker.is_bulk());
    }
    run.pass(9_900);
    assert!(run.tracker.is_bulk(), "fewer changed for less than a delay");
    run.pass(100);
    assert!(!run.tracker.is_bulk());
    assert_eq!(run.world.known.len(), 9 * per_delay as usize);
    run.come(u32::MAX >> 1);
    run.pass(100);
    assert_eq!(run.world.edges, 1);
}

#[test]
fn a_reconnect_storm_of_a_million_causes_no_edge() {
    let mut run = Run::settled(u64::MAX >> 20);
    let number = if cfg!(debug_assertions) {
        200_000
    } else {
        1_000_000
    };
    for id in 0..number {
        run.tracker.moved(key(id), true, &mut run.world);
    }
    // So many arrivals at once begin a bulk period, which ends in snapshots.
    run.pass(90_000);
    assert!(!run.tracker.is_bulk());
    let (edges, bulk_edges) = (run.world.edges, run.world.bulk_edges);
    for id in 0..number {
        *run.world.references.entry(id).or_default() += 1;
        run.tracker.moved(key(id), false, &mut run.world);
    }
    assert_eq!(run.tracker.leaving(), number as usize);
    run.pass(9_000);
    for id in 0..number {
        run.tracker.moved(key(id), true, &mut run.world);
    }
    run.pass(20_000);
    assert_eq!((run.world.edges, run.world.bulk_edges), (edges, bulk_edges));
    assert_eq!((run.tracker.leaving(), run.tracker.waiting()), (0, 0));
    assert_eq!(run.world.announced.len(), number as usize);
    assert_eq!(run.world.references.values().sum::<i64>(), 0);
}

/// Returns a settled run in which `number` ids are online and announced.
fn crowd(number: u32) -> Run {
    let mut run = Run::settled(u64::MAX >> 20);
    for id in 0..number {
        run.come(id);
    }
    run.pass(1_000);
    assert_eq!(run.world.known.len(), number as usize);
    run
}

#[test]
fn ids_that_return_after_more_than_the_delay_in_a_storm_cause_no_edge() {
    let mut run = crowd(4_000);
    let edges = run.world.edges;
    for id in 0..4_000 {
        run.leave(id);
    }
    // They return at an even pace, the last ones after 39 s.
    for wave in 0..40 {
        for id in wave * 100..(wave + 1) * 100 {
            run.come(id);
        }
        run.pass(1_000);
    }
    assert_eq!((run.world.edges, run.online.count()), (edges, 4_000));
    // After that a single departure is announced in time.
    run.pass(20_000);
    run.leave(7);
    run.pass(10_000);
    assert_eq!(run.world.edges, edges + 1);
    run.check_quiet();
}

#[test]
fn ids_that_stay_away_after_a_storm_go_offline_within_six_delays() {
    let mut run = crowd(4_000);
    let edges = run.world.edges;
    for id in 0..4_000 {
        run.leave(id);
    }
    run.pass(5_000);
    for id in 0..3_900 {
        run.come(id);
    }
    // Few are away: one more delay, and the rest of the one that they were given.
    run.pass(30_000);
    assert_eq!((run.world.edges, run.online.count()), (edges + 100, 3_900));
    run.check_quiet();

    let mut run = crowd(4_000);
    let edges = run.world.edges;
    for id in 0..4_000 {
        run.leave(id);
    }
    run.pass(50_000);
    assert_eq!((run.world.edges, run.online.count()), (edges, 4_000));
    run.pass(11_000);
    assert_eq!((run.world.edges, run.online.count()), (edges + 4_000, 0));
    run.check_quiet();
}

#[test]
fn many_departures_are_not_a_storm_while_more_ids_stay() {
    let mut run = crowd(4_000);
    let edges = run.world.edges;
    for id in 0..1_900 {
        run.leave(id);
    }
    run.pass(10_000);
    assert_eq!(
        (run.world.edges, run.online.count()),
        (edges + 1_900, 2_100)
    );
    run.check_quiet();
}

#[test]
fn arrivals_in_the_first_delay_of_a_server_are_announced_by_snapshots_alone() {
    let mut run = Run::new(1_000);
    for id in 0..50_000 {
        run.come(id);
    }
    run.pass(9_900);
    assert!(!run.tracker.is_settled());
    assert_eq!((run.world.edges, run.world.known.len()), (0, 0));
    run.pass(100);
    assert!(run.tracker.is_settled() && !run.tracker.is_bulk());
    assert_eq!((run.world.edges, run.world.known.len()), (0, 50_000));
    run.come(50_000);
    run.pass(100);
    assert_eq!((run.world.edges, run.world.known.len()), (1, 50_001));
}

#[test]
fn edges_beyond_the_bound_of_the_queue_become_snapshots() {
    let mut run = Run::settled(10);
    let number = QUEUE_MAX as u32 + 5_000;
    for id in 0..number {
        run.come(id);
        assert!(run.tracker.waiting() <= QUEUE_MAX + 1);
    }
    assert!(run.tracker.is_bulk());
    assert_eq!(run.tracker.waiting(), 0);
    run.pass(100_000);
    assert!(!run.tracker.is_bulk());
    assert_eq!(run.world.known.len(), number as usize);
    assert!(run.world.edges < 10, "{} edges", run.world.edges);
    // From then on a single change is announced by an edge again.
    run.leave(3);
    run.pass(11_000);
    assert_eq!(run.world.known.len(), number as usize - 1);
    run.check_quiet();
}

#[test]
fn edges_are_announced_at_the_configured_rate_and_coalesced_while_they_wait() {
    let mut run = Run::settled(100);
    run.world.cost = 9;
    for id in 0..200 {
        run.come(id);
    }
    run.pass(1_000);
    // An edge is ten messages here: ten edges a second, and a burst of two at most.
    let edges = run.world.edges;
    assert!((10..=13).contains(&edges), "{edges} edges in a second");
    run.pass(4_000);
    let edges = run.world.edges;
    assert!((50..=53).contains(&edges), "{edges} edges in five seconds");
    for id in 100..200 {
        run.leave(id);
    }
    run.pass(11_000);
    assert!(run.world.known.len() <= 173);
    run.check_quiet();
    assert!(run.world.edges < 300, "{} edges", run.world.edges);
}

#[test]
fn an_edge_that_was_undone_while_it_waited_is_not_announced() {
    let mut run = Run::settled(1);
    run.world.cost = 10;
    run.come(1);
    run.pass(1_000);
    assert_eq!(run.world.edges, 1);
    // It waits, and is hidden before it is announced.
    run.come(2);
    run.pass(1_000);
    run.hide(2, true);
    run.pass(60_000);
    assert_eq!(run.world.edges, 1);
}

#[test]
fn an_edge_with_many_recipients_delays_the_next_one() {
    let mut run = Run::settled(1_000);
    run.world.cost = 5_000;
    run.come(1);
    run.come(2);
    run.pass(4_500);
    assert_eq!(run.world.edges, 1);
    run.pass(600);
    assert_eq!(run.world.edges, 2);
}

#[test]
fn a_hidden_id_is_offline_until_it_is_shown() {
    let mut run = Run::settled(1_000);
    run.hide(1, true);
    run.come(1);
    run.come(2);
    run.pass(1_000);
    assert_eq!(run.world.known, BTreeSet::from([2]));
    assert!(run.online.is_online(key(1)), "the backend sees it");
    run.hide(2, true);
    run.hide(1, false);
    run.pass(1_000);
    assert_eq!(run.world.known, BTreeSet::from([1]));
    run.check_quiet();
}

/// Three nodes of a cluster, each with a tracker and the part of the log that it has read.
struct Cluster {
    nodes: Vec<(Tracker, Arc<Online>, World, usize)>,
    log: Vec<(NodeName, Edge)>,
    now: u64,
}

impl Cluster {
    fn new(number: usize) -> Self {
        let node = |_| {
            let online = Arc::new(Online::default());
            let tracker = Tracker::new(Arc::clone(&online), DELAY, 1_000).in_cluster(DELAY);
            (tracker, online, World::default(), 0)
        };
        Self {
            nodes: (0..number).map(node).collect(),
            log: Vec::new(),
            now: 0,
        }
    }

    fn moved(&mut self, node: usize, number: u32, is_here: bool) {
        let (tracker, _, world, _) = &mut self.nodes[node];
        *world.references.entry(number).or_default() += i64::from(!is_here);
        tracker.moved(key(number), is_here, world);
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 100 {
            self.now += 100;
            for (nth, (tracker, _, world, read)) in self.nodes.iter_mut().enumerate() {
                if tracker.advance(Millis(self.now), world) == Due::Snapshots {
                    world.known = world.announced.clone();
                }
                let name = NodeName(nth as u64);
                self.log
                    .extend(world.to_nodes.drain(..).map(|edge| (name, edge)));
                for (place, &(node, edge)) in self.log.iter().enumerate().skip(*read) {
                    *world.references.entry(edge.key.number()).or_default() += 1;
                    let (is_own, place) = (node == name, place as u64);
                    let cause = Cause {
                        node,
                        is_own,
                        place,
                    };
                    tracker.node_told(cause, edge, world);
                }
                *read = self.log.len();
            }
        }
    }
}

#[test]
fn in_a_cluster_an_id_is_online_on_any_node() {
    let mut cluster = Cluster::new(3);
    cluster.pass(11_000);
    cluster.moved(0, 7, true);
    cluster.pass(300);
    for (_, online, world, _) in &cluster.nodes {
        assert!(online.is_online(key(7)));
        assert_eq!((world.known.len(), world.edges), (1, 1));
    }
    // It moves to another node: it is never offline, and nothing is announced.
    cluster.moved(1, 7, true);
    cluster.moved(0, 7, false);
    cluster.pass(30_000);
    for (_, online, world, _) in &cluster.nodes {
        assert!(online.is_online(key(7)));
        assert_eq!(world.edges, 1);
    }
    cluster.moved(1, 7, false);
    cluster.pass(9_000);
    assert!(cluster.nodes.iter().all(|node| node.2.edges == 1), "early");
    cluster.pass(1_500);
    for (_, online, world, _) in &cluster.nodes {
        assert!(!online.is_online(key(7)));
        assert_eq!((world.known.len(), world.edges), (0, 2));
        assert_eq!(world.references.values().sum::<i64>(), 0);
        // All nodes agree on which node reports to the backend: the first that had it, and the
        // last.
        let edge = |online| {
            let key = key(7);
            Edge { key, online }
        };
        let expected = [(NodeName(0), edge(true)), (NodeName(1), edge(false))];
        assert_eq!(world.caused, expected);
    }
}

#[test]
fn a_node_that_is_gone_takes_its_ids_with_it_after_the_delay() {
    let mut cluster = Cluster::new(2);
    cluster.pass(11_000);
    for number in 0..10 {
        cluster.moved(0, number, true);
    }
    cluster.moved(1, 9, true);
    cluster.pass(1_000);
    let heir = Some(Cause {
        node: NodeName(1),
        is_own: true,
        place: 99,
    });
    cluster.nodes[1].0.node_gone(NodeName(0), heir);
    // Some of its clients come back to the other node in time.
    cluster.pass(5_000);
    cluster.moved(1, 3, true);
    cluster.nodes[1].0.node_gone(NodeName(0), heir);
    cluster.pass(4_000);
    let (_, online, world, _) = &cluster.nodes[1];
    assert_eq!((online.count(), world.edges), (10, 10));
    cluster.pass(2_000);
    let (_, online, world, _) = &cluster.nodes[1];
    assert_eq!((online.count(), world.edges), (2, 18));
    assert_eq!(world.known, BTreeSet::from([3, 9]));
    // The node that had the ids has reported the arrivals, and its heir reports the rest.
    let by = |node, online| {
        let told = world.caused.iter();
        told.filter(|(by, edge)| *by == NodeName(node) && edge.online == online)
            .count()
    };
    assert_eq!((by(0, true), by(1, true)), (10, 0));
    assert_eq!((by(0, false), by(1, false)), (0, 8));
    // The references to the remaining ids are those of node 1.
    assert_eq!(world.references.values().sum::<i64>(), 2);
}
