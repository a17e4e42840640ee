//! Events of clients, published through the router.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};

use graph::Id;
use replication::AppendError;
use router::{Event, Payload};
use server::{EventPublisher as _, PublishError};
use tokio::runtime::Builder;

use super::fake::Fake;
use super::fake_log::FakeLog;
use crate::api::Api;
use crate::client_events::ClientEvents;
use crate::metrics::published::Verb;

fn event(subject: u32) -> Event {
    Event {
        subject: Id::from(subject),
        event_type: None,
        payload: Payload::text("x".into()),
    }
}

#[test]
fn events_of_clients_get_their_positions_in_order_and_are_counted() {
    let threads = Builder::new_multi_thread().enable_time().build().unwrap();
    let api = Arc::new(Fake::new().api());
    let events = ClientEvents::new(threads.handle().clone(), Arc::downgrade(&api));
    let (done, answer) = sync_channel(1);
    for (count, first) in [(1, 1), (70, 2), (3, 72)] {
        let done = done.clone();
        let taken = (0..count).map(event).collect();
        events.publish(taken, Box::new(move |result| done.send(result).unwrap()));
        let expected: Vec<u64> = (first..first + u64::from(count)).collect();
        assert_eq!(answer.recv().unwrap(), Ok(expected));
    }
    assert_eq!(api.published.verb(Verb::Client), 74);
}

#[test]
fn in_a_cluster_events_of_clients_go_through_the_log_and_its_errors_are_told_apart() {
    let threads = Builder::new_multi_thread().enable_time().build().unwrap();
    let log = FakeLog::new();
    let fake = Fake::new();
    let api = Arc::new(Api {
        replicated: Some(log.replicated(&fake)),
        ..fake.api()
    });
    let events = ClientEvents::new(threads.handle().clone(), Arc::downgrade(&api));
    let (done, answer) = sync_channel(1);
    let publish = |count: u32| {
        let done = done.clone();
        let taken = (0..count).map(event).collect();
        events.publish(taken, Box::new(move |result| done.send(result).unwrap()));
        answer.recv().unwrap()
    };
    let node = threads.spawn({
        let log = Arc::clone(&log);
        async move {
            let appended = log.next().await;
            let subjects = appended.subjects();
            appended.apply(5, &[[1, 1, 0, 0]], &[]);
            subjects
        }
    });
    let positions = [0, 1, 2].map(|index| 5 * 65_536 + index);
    assert_eq!(publish(3), Ok(positions.to_vec()));
    let subjects = threads.block_on(node).expect("it does not panic");
    assert_eq!(subjects, ["0", "1", "2"]);
    assert_eq!(api.published.verb(Verb::Client), 3);
    for (error, told) in [
        (AppendError::Full, PublishError::Unavailable),
        (AppendError::Unknown, PublishError::Unknown),
    ] {
        *log.refuses.lock() = Some(error);
        assert_eq!(publish(1), Err(told));
    }
}

#[test]
fn without_an_api_nothing_is_published_and_said_to_be() {
    let threads = Builder::new_multi_thread().enable_time().build().unwrap();
    let events = ClientEvents::new(threads.handle().clone(), Weak::new());
    let (done, answer) = sync_channel(1);
    events.publish(vec![event(1)], Box::new(move |it| done.send(it).unwrap()));
    assert_eq!(answer.recv().unwrap(), Err(PublishError::Unavailable));
}
