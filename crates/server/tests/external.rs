//! An external worker beside a worker of the server: its deliveries, and the metrics that it
//! brings.

use std::sync::Arc;

use bytes::Bytes;
use graph::{Graph, Id};
use reactor::{Count, Counters, MetricDescription, MetricSet as _, SlotKey, Snapshot};
use router::{Counts, Event, Payload, Tally};
use server::{ExternalWorker, Listener, Metric, Server, ServerStats, Settings, WorkerCommand};

reactor::metrics! {
    /// What the external worker of these tests counts.
    enum OwnMetric {
        Gauge "sessions" ["transport"] "Open sessions, by transport." {
            Sessions = "carrier_pigeon"
        }
        Counter "system_calls" ["call"]
            "System calls on the data path, by call. Calls of epoll_wait are counted as turns."
            { Accepts = "accept" }
        Counter "accept_pauses" []
            "Times that accepting connections paused because the process ran out of file \
             descriptors."
            { AcceptPauses }
        Time "stage_seconds" ["stage"] "Busy seconds by stage, extrapolated from sampled turns." {
            StageSignals = "signals", StageAccept = "accept",
        }
        Counter "bytes_written" [] "Bytes written to client sockets." { BytesWritten }
        Gauge "pigeons" [] "Pigeons in the air." { Pigeons }
    }
}

type OwnCounters = Counters<OwnMetric, { OwnMetric::ALL.len() }>;

fn start() -> (Server, ExternalWorker) {
    let settings = Settings {
        external_workers: 1,
        ..Settings::default()
    };
    let listeners = vec![Listener::bind(([127, 0, 0, 1], 0).into())];
    let graph = Arc::new(Graph::memory());
    let mut server =
        Server::start(settings, listeners, "e".to_owned(), graph).expect("a server starts");
    let worker = server.take_external_worker().expect("one was asked for");
    assert!(server.take_external_worker().is_none());
    (server, worker)
}

fn stop(server: Server) {
    server.handle().drain();
    server.join().expect("workers end well");
}

fn publish(server: &Server, id: &Id) -> Arc<Tally> {
    let tally = Tally::new();
    let event = Event {
        subject: id.clone(),
        event_type: None,
        payload: Payload::text("shown".into()).with_native(Bytes::from_static(b"\x01native")),
    };
    server.handle().router().publish(event, &tally);
    tally
}

/// The metric of each worker.
fn by_worker(stats: &ServerStats, described: MetricDescription) -> Vec<u64> {
    let place = stats.metrics.find(&described).expect("a metric");
    let workers = stats.metrics.workers.iter();
    workers.map(|values| values[place]).collect()
}

const KEY: SlotKey = SlotKey {
    index: 3,
    generation: 1,
};

#[test]
fn an_external_worker_receives_both_encodings_and_its_receipt_is_counted() {
    let (server, worker) = start();
    let id = Id::parse("7").unwrap();
    let session = worker.session(KEY);
    server.handle().router().login(&id, session).unwrap();
    let tally = publish(&server, &id);
    let commands: Vec<_> = worker.take_commands().collect();
    let [WorkerCommand::Deliver(parcel)] = &commands[..] else {
        panic!("one parcel");
    };
    let payload = &parcel.events[0].payload;
    assert_eq!(payload.bytes(), "shown");
    assert_eq!(payload.native().unwrap(), &b"\x01native"[..]);
    let waiting = by_worker(&server.handle().stats(), Metric::MailboxBytes.describe());
    assert!(waiting[0] == 0 && waiting[1] > 0, "{waiting:?}");
    let written = Counts {
        written: 1,
        ..Counts::default()
    };
    worker.settle(parcel, written);
    assert_eq!((tally.pending(), tally.counts()), (0, written));
    let stats = server.handle().stats();
    assert_eq!(by_worker(&stats, Metric::Deliveries.describe()), [0, 1]);
    assert_eq!(by_worker(&stats, Metric::MailboxBytes.describe()), [0, 0]);
    stop(server);
}

#[test]
fn parcels_for_an_external_worker_that_has_stopped_are_shed() {
    let (server, worker) = start();
    let id = Id::parse("7").unwrap();
    server
        .handle()
        .router()
        .login(&id, worker.session(KEY))
        .unwrap();
    let before = publish(&server, &id);
    worker.close_mailbox();
    let after = publish(&server, &id);
    for tally in [before, after] {
        assert_eq!((tally.pending(), tally.counts().shed), (0, 1));
    }
    stop(server);
}

#[test]
fn metrics_that_an_external_worker_brings_are_its_own_and_are_summed_with_those_of_all() {
    let (server, worker) = start();
    let described: Vec<_> = OwnMetric::ALL.iter().map(|m| m.describe()).collect();
    server.handle().declare_metrics(described);
    let pigeons = |stats: &ServerStats| by_worker(stats, OwnMetric::Pigeons.describe());
    assert_eq!(pigeons(&server.handle().stats()), [0, 0]);
    let counters = Arc::<OwnCounters>::default();
    let read = Arc::clone(&counters);
    let snapshot = move || Snapshot::of([&*read].into_iter());
    server.handle().add_metrics(worker.id(), snapshot);
    counters.add(OwnMetric::Pigeons, 2);
    counters.add(OwnMetric::BytesWritten, 5);
    counters.add(OwnMetric::Sessions, 1);
    counters.polled(4);
    let stats = server.handle().stats();
    assert_eq!(pigeons(&stats), [0, 2]);
    assert_eq!(by_worker(&stats, Metric::BytesWritten.describe()), [0, 5]);
    assert_eq!(stats.total(Metric::BytesWritten), 5);
    assert_eq!(by_worker(&stats, OwnMetric::Sessions.describe()), [0, 1]);
    assert_eq!(by_worker(&stats, OwnMetric::SIGNALS.describe())[1], 4);
    assert_eq!(stats.metrics.metrics.len(), Metric::ALL.len() + 2);
    stop(server);
}
