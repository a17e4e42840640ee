//! Snapshots in the object store of a real engine, and nodes that start from them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use cluster::apply::{Applier, begin_from};
use cluster::{Cluster, Engine, Options, SnapshotError};
use futures_util::TryStreamExt;
use graph::{Change, Graph, Id, Key, Rows};
use history::{Limits, Reach};
use replication::{
    Append, Command, EventRecord, Position, SnapshotManifest, StreamSequence, Table, Wait,
};
use router::{Mailboxes, Parcel, Router, WorkerId};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::joining::join;
use crate::nodes::{PATIENCE, Seven, until};
use crate::servers::{STARTS, Servers};

const HISTORY: Limits = Limits {
    bytes: 8 << 20,
    age_seconds: None,
};

/// Size of the history as passed to the applier, in bytes: small, so that positions are kept often.
const HISTORY_BYTES: usize = 64 << 10;

/// Size of the log, in bytes: a few dozen entries of the tests.
const LOG_BYTES: u64 = 1 << 20;

/// Number of subscriptions in an entry of the tests.
const EDGES: u32 = 100;

/// Users that subscribe. An entry of each fills more than a quarter of the log, and less than a
/// half.
const USERS: u32 = 16;

/// Mailboxes of a node that has no sessions.
#[derive(Debug, Default)]
struct NoMail;

impl Mailboxes for NoMail {
    fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        Err(parcel)
    }

    fn ring(&self, _: WorkerId) {}
}

/// Node with a graph and a history, but without a server.
struct Node {
    cluster: Arc<Cluster>,
    router: Arc<Router<NoMail>>,
    /// Position of the graph when it was opened, and the entry after which reading began.
    opened_at: u64,
    read_from: u64,
}

fn options(servers: &Servers, name: &str) -> Options {
    let mut options = servers.options();
    options.node = name.parse().unwrap();
    options.log.bytes = LOG_BYTES;
    options
}

impl Node {
    fn start(servers: &Servers, name: &str, path: &Path) -> Result<Self, SnapshotError> {
        Self::start_with(servers, name, |engine, options| {
            let _no_starts = STARTS.read();
            engine.open_graph(path, options)
        })
    }

    /// Starts a node without a directory.
    fn start_in_memory(servers: &Servers, name: &str) -> Result<Self, SnapshotError> {
        Self::start_with(servers, name, Engine::graph_in_memory)
    }

    fn start_with(
        servers: &Servers,
        name: &str,
        open: impl FnOnce(&mut Engine, &Options) -> Result<Graph, SnapshotError>,
    ) -> Result<Self, SnapshotError> {
        let options = options(servers, name);
        let mut engine = join(&options, "e");
        let graph = Arc::new(open(&mut engine, &options)?);
        let places = graph.log_start().unwrap().clone();
        let from = begin_from(&places, engine.state().first).unwrap();
        engine.keep_snapshots(&options, &graph);
        let router = Router::new("e", graph, NoMail).with_history(HISTORY);
        let router = Arc::new(router);
        let applier = Applier::new(Arc::clone(&router), None, from.clone(), HISTORY_BYTES, 0);
        let host = Arc::new(Seven);
        let cluster = Cluster::start(engine, &options, "test", applier.unwrap(), host);
        Ok(Self {
            cluster: cluster.unwrap(),
            router,
            opened_at: places.last.sequence,
            read_from: from.read.number(),
        })
    }

    /// Appends an entry with a large event and subscriptions of `user`. Returns its sequence.
    fn append(&self, user: u32) -> StreamSequence {
        self.append_with(user, 0, 20 << 10)
    }

    /// Appends an entry with an event of this size and other subscriptions.
    fn append_with(&self, user: u32, shift: u32, bytes: usize) -> StreamSequence {
        let event = Command::Event(EventRecord {
            subject: Id::from(user),
            reach: Reach::Subscribers,
            is_stored: true,
            tag: 0,
            event_type: "".into(),
            payload: vec![b'x'; bytes].into(),
        });
        let subjects = (0..EDGES).map(|number| Id::from(1_000_000 + user + shift + number));
        let replace = Command::Change(Change::Replace {
            subscriber: Id::from(user),
            subjects: subjects.collect(),
        });
        let (answer, answered) = sync_channel(1);
        let done = Box::new(move |outcome| {
            let _ = answer.send(outcome);
        });
        self.cluster
            .append(vec![event, replace], Wait::Logged, done);
        let outcome = answered.recv_timeout(PATIENCE).unwrap();
        outcome.unwrap().first.sequence()
    }

    fn wait_for(&self, sequence: StreamSequence) {
        until("the entry is applied", || {
            let status = self.cluster.status();
            let reason = self.cluster.stopped();
            assert_eq!(reason, None, "{status:?}");
            status.applied >= sequence
        });
    }

    /// Returns all subscriptions of the test users.
    fn edges(&self) -> BTreeSet<(u32, Key)> {
        edges(self.router.graph())
    }

    /// Returns the positions of the events after an entry that `user` would get again.
    fn missed(&self, user: u32, after: u64) -> Vec<u64> {
        let graph = self.router.graph();
        let own = graph.hold(&Id::from(user)).unwrap();
        let after = Position::new(StreamSequence::new(after).unwrap(), u16::MAX).number();
        let mut found = Vec::new();
        self.router
            .missed(&[own], after, u64::MAX, 10_000, &mut found);
        graph.release(own);
        found.iter().map(|missed| missed.position).collect()
    }

    /// Leaves the cluster and closes the graph.
    fn end(self) {
        self.cluster.end();
        self.router.graph().end();
    }
}

fn edges(graph: &Graph) -> BTreeSet<(u32, Key)> {
    let mut all = BTreeSet::new();
    for user in 1..=USERS {
        let key = graph.hold(&Id::from(user)).unwrap();
        let mut subjects = Vec::new();
        graph.subscriptions(key, None, 10_000, &mut subjects);
        all.extend(subjects.into_iter().map(|subject| (user, subject)));
    }
    all
}

/// The object store as another client sees it.
struct Store {
    runtime: Runtime,
    context: Context,
}

impl Store {
    fn open(servers: &Servers) -> Self {
        // Waits for the server.
        drop(join(&options(servers, "look"), "e"));
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let server = servers.options().servers[0].to_string();
        let context = runtime.block_on(async {
            let client = async_nats::connect(server).await.unwrap();
            async_nats::jetstream::new(client)
        });
        Self { runtime, context }
    }

    fn stream(&self) -> Option<Stream> {
        let found = self.context.get_stream("OBJ_encke-test-snapshots");
        self.runtime.block_on(found).ok()
    }

    /// Returns the names of objects as listed by the library, sorted.
    fn objects(&self) -> Vec<String> {
        let listed = self.runtime.block_on(async {
            let store = self.context.get_object_store("encke-test-snapshots").await;
            let infos: Vec<_> = store.ok()?.list().await.ok()?.try_collect().await.ok()?;
            Some(infos.into_iter().map(|info| info.name).collect())
        });
        let mut names: Vec<String> = listed.unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// Returns the complete snapshots, the oldest first.
    fn snapshots(&self) -> Vec<String> {
        let names = self.objects();
        let whole = names
            .iter()
            .filter_map(|name| name.strip_suffix("-manifest"));
        whole.map(str::to_owned).collect()
    }

    /// Returns the subjects with pieces of objects.
    fn subjects(&self) -> Vec<String> {
        let stream = self.stream().unwrap();
        self.runtime.block_on(async {
            let filter = "$O.encke-test-snapshots.C.>";
            let subjects = stream.info_with_subjects(filter).await.unwrap();
            let all: Vec<_> = subjects.try_collect().await.unwrap();
            all.into_iter().map(|(subject, _)| subject).collect()
        })
    }

    fn pieces(&self, name: &str) -> Vec<Bytes> {
        let stream = self.stream().unwrap();
        let (mut pieces, mut next) = (Vec::new(), 1);
        let subject = pieces_subject(name);
        while let Ok(message) = self
            .runtime
            .block_on(stream.get_first_raw_message_by_subject(&subject, next))
        {
            next = message.sequence + 1;
            pieces.push(message.payload);
        }
        pieces
    }

    fn set_pieces(&self, name: &str, pieces: Vec<Bytes>) {
        let stream = self.stream().unwrap();
        self.runtime.block_on(async {
            let subject = pieces_subject(name);
            stream.purge().filter(subject.clone()).await.unwrap();
            for piece in pieces {
                let sent = self.context.publish(subject.clone(), piece).await.unwrap();
                sent.await.unwrap();
            }
        });
    }
}

fn pieces_subject(name: &str) -> String {
    format!("$O.encke-test-snapshots.C.{name}")
}

/// Returns the position in the log from the name of a snapshot.
fn place_of(snapshot: &str) -> u64 {
    snapshot.split('-').nth(1).unwrap().parse().unwrap()
}

/// Opens the graph of a new node. Returns its position in the log.
fn open_new(servers: &Servers) -> Result<u64, SnapshotError> {
    let directory = TempDir::new().unwrap();
    let options = options(servers, "new");
    let mut engine = join(&options, "e");
    let no_starts = STARTS.read();
    let graph = engine.open_graph(directory.path(), &options)?;
    drop(no_starts);
    Ok(graph.log_start().unwrap().last.sequence)
}

#[test]
fn new_nodes_and_nodes_too_far_behind_start_from_a_snapshot() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let store = Store::open(&servers);
    let paths = [(); 3].map(|()| TempDir::new().unwrap());
    let writer = Node::start(&servers, "n1", paths[0].path()).unwrap();
    let away = Node::start(&servers, "n2", paths[1].path()).unwrap();
    // A row of another crate.
    let row = (*b"name", *b"value");
    let rows = [(row.0.into(), Some(row.1.into()))].into();
    writer.router.graph().set_rows(rows, drop);
    let early = writer.append(1);
    away.wait_for(early);
    away.end();
    let (mut last, mut shift) = (early, 0);
    while join(&options(&servers, "look"), "e").state().first <= early.next().number() {
        for user in 1..=USERS {
            last = writer.append(user);
        }
        let round = last.number();
        until("a snapshot is made", || {
            // The graph changes while it is copied.
            shift += 1;
            last = writer.append_with(shift % USERS + 1, shift, 10);
            let newest = store.snapshots().last().map_or(0, |name| place_of(name));
            newest >= round
        });
    }
    let new = Node::start(&servers, "n3", paths[2].path()).unwrap();
    let back = Node::start(&servers, "n2", paths[1].path()).unwrap();
    let in_memory = Node::start_in_memory(&servers, "n4").unwrap();
    let last = writer.append(1);
    for node in [&new, &back, &in_memory] {
        node.wait_for(last);
        assert!(node.opened_at > early.number(), "{}", node.opened_at);
        assert!(node.read_from < last.number());
        assert_eq!(node.edges(), writer.edges());
        let rows: Rows = [(row.0.into(), row.1.into())].into();
        assert_eq!(node.router.graph().take_rows(), rows);
        for user in 1..=USERS {
            let after = node.read_from;
            assert_eq!(
                node.missed(user, after),
                writer.missed(user, after),
                "{user}"
            );
        }
    }
    assert_eq!(new.edges().len(), (USERS * EDGES) as usize);
    let file = paths[2].path().join("graph.redb");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Older ones are removed, except pieces of a copy in progress.
    let expected = |left: &[String]| left.len() <= 2 * 2 + 1;
    until("older snapshots are removed", || {
        expected(&store.subjects())
    });
    // Its state goes to disk with its position, and is there after a restart.
    let (edges, path) = (new.edges(), paths[2].path());
    new.end();
    let again = Node::start(&servers, "n3", path).unwrap();
    again.wait_for(last);
    assert_eq!(again.edges(), edges);
}

#[test]
fn two_nodes_make_snapshots_one_at_a_time() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let store = Store::open(&servers);
    let paths = [(); 2].map(|()| TempDir::new().unwrap());
    let nodes = [("n1", 0), ("n2", 1)];
    let nodes = nodes.map(|(name, at)| Node::start(&servers, name, paths[at].path()).unwrap());
    let mut last = None;
    for round in 1..=3 {
        for (user, node) in (1..=USERS).zip(nodes.iter().cycle()) {
            last = Some(node.append(user));
        }
        until("a snapshot is made", || {
            let objects = store.objects();
            let parts = |what| objects.iter().filter(|it| it.ends_with(what)).count();
            let (graphs, manifests) = (parts("-graph"), parts("-manifest"));
            // Old ones are removed under the lease, the manifest first.
            assert!(graphs <= manifests + 1, "two copy at once: {objects:?}");
            manifests >= round.min(2)
        });
    }
    for node in &nodes {
        node.wait_for(last.unwrap());
        assert_eq!(node.edges(), nodes[0].edges());
    }
    assert!(open_new(&servers).unwrap() > 0);
}

#[test]
fn a_snapshot_that_differs_from_its_manifest_is_refused_and_the_previous_one_used() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let store = Store::open(&servers);
    let path = TempDir::new().unwrap();
    let writer = Node::start(&servers, "n1", path.path()).unwrap();
    assert_eq!(open_new(&servers).unwrap(), 0, "no snapshot, no place");
    for count in [1, 2] {
        for user in 1..=USERS {
            writer.append(user);
        }
        until("a snapshot is made", || store.snapshots().len() >= count);
    }
    writer.end();
    let [older, newer] = <[String; 2]>::try_from(store.snapshots()).unwrap();
    assert_eq!(open_new(&servers).unwrap(), place_of(&newer));

    let graph = (
        format!("{newer}-graph"),
        store.pieces(&format!("{newer}-graph")),
    );
    let manifest = format!("{newer}-manifest");
    let manifest = (manifest.clone(), store.pieces(&manifest));
    let spoil = |change: &dyn Fn(&mut SnapshotManifest)| {
        let mut spoilt = SnapshotManifest::decode(&manifest.1.concat().into()).unwrap();
        change(&mut spoilt);
        vec![spoilt.encode().unwrap()]
    };
    let [cut, longer, other_bytes] = [(); 3].map(|()| graph.1.clone());
    let (mut cut, mut longer, mut other_bytes) = (cut, longer, other_bytes);
    cut.pop();
    let last = longer.pop().unwrap();
    longer.push([&last[..], b"x"].concat().into());
    let last = other_bytes.pop().unwrap();
    other_bytes.push(vec![0; last.len()].into());
    let higher = |it: &mut SnapshotManifest| {
        it.checkpoint.read = it.checkpoint.read.next();
    };
    let spoils = [
        ("cut", &graph, cut),
        ("longer", &graph, longer),
        ("other bytes", &graph, other_bytes),
        ("empty", &manifest, vec![Bytes::new()]),
        ("epoch", &manifest, spoil(&|it| it.epoch = "other".into())),
        ("checksum", &manifest, spoil(&|it| it.checksum[0] ^= 1)),
        ("size", &manifest, spoil(&|it| it.bytes -= 1)),
        ("place", &manifest, spoil(&higher)),
        (
            "tables",
            &manifest,
            spoil(&|it| it.checkpoint.table = Table::default()),
        ),
        (
            "no earlier tables",
            &manifest,
            spoil(&|it| it.earlier.clear()),
        ),
    ];
    for (what, (name, pieces), spoilt) in spoils {
        store.set_pieces(name, spoilt);
        assert_eq!(open_new(&servers).expect(what), place_of(&older), "{what}");
        store.set_pieces(name, pieces.clone());
        assert_eq!(open_new(&servers).expect(what), place_of(&newer), "{what}");
    }

    // A node never starts with an empty graph if there are snapshots.
    for name in [&older, &newer] {
        store.set_pieces(&format!("{name}-graph"), Vec::new());
    }
    let refused = open_new(&servers).expect_err("none is usable").to_string();
    assert!(
        refused.contains(&older) && refused.contains(&newer),
        "{refused}"
    );
}
