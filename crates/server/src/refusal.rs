//! Refusal of connections and streams that there is no room for.
//!
//! An `EventSource` that is answered 503 is closed for good (WHATWG HTML, section 9.2.3), so a
//! browser would not come back to a server that was full for a second. It gets 200 with a reconnect
//! delay and the end of the stream instead. Other requests get 503 with `Retry-After`. To tell one
//! from the other, the head of a refused connection must be read; this module owns the bound on
//! connections that are refused and still read. Must never write an answer.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use reactor::SlotKey;
use router::WorkerId;
use wire::head::{Method, Request};
use wire::status::Status;

use crate::answer::{Answer, EVENT_STREAM, Fields};
use crate::limits::REFUSED_RETRY_MIN;

/// The answer to `cursor=message` where clients cannot send messages.
pub(crate) const NO_MESSAGES: &str =
    "cursor=message is for /ws, whose clients can send a message; give the cursor itself";

/// Reason to refuse a stream while none is taken.
pub(crate) const NO_STREAMS: &str = "this server takes no streams now; try again in a moment";

/// Refused connections whose requests are awaited, oldest first. Holds at most
/// `requests_max`; some may have been answered or closed since.
#[derive(Debug, Default)]
pub(crate) struct AwaitedRequests(VecDeque<SlotKey>);

impl AwaitedRequests {
    /// Adds a connection. Returns the oldest one if there are too many, to be refused unread.
    pub(crate) fn push(&mut self, key: SlotKey, requests_max: usize) -> Option<SlotKey> {
        self.0.push_back(key);
        (self.0.len() > requests_max)
            .then(|| self.0.pop_front())
            .flatten()
    }
}

/// Returns whether a request is for a stream of events and accepts no other form: the client is an
/// `EventSource`, or behaves like one.
pub(crate) fn wants_event_stream(request: &Request<'_>) -> bool {
    let is_event_stream = |range: &str| {
        let name = range.split(';').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case(EVENT_STREAM)
    };
    request.method == Method::Get
        && request
            .values("accept")
            .flatten()
            .any(|ranges| ranges.split(',').any(is_event_stream))
}

/// Makes the answer that lets an `EventSource` try again after `delay_ms`.
pub(crate) fn come_back(reason: &str, delay_ms: u64) -> Answer {
    Answer {
        status: Status::OK,
        content_type: EVENT_STREAM,
        fields: Fields::Fixed(&[("Cache-Control", "no-store")]),
        body: Cow::Owned(format!(": {reason}\nretry: {delay_ms}\n\n").into_bytes()),
    }
}

/// Returns the reconnect delay of a worker's client number `number` in milliseconds: at least
/// [`REFUSED_RETRY_MIN`].
pub(crate) fn delay(worker: WorkerId, number: u32, spread: Duration) -> u64 {
    REFUSED_RETRY_MIN.as_millis() as u64 + share(worker, number, spread)
}

/// Returns the reconnect delay in the greeting of a worker's client number `number`, in
/// milliseconds: from half of `usual` to half as much again. An `EventSource` waits exactly as long
/// as it was told, so with the same delay for all, the clients of a server that is killed would
/// come back in one instant.
pub(crate) fn usual_delay(worker: WorkerId, number: u32, usual: Duration) -> u64 {
    (usual / 2).as_millis() as u64 + share(worker, number, usual)
}

/// Returns the share of a worker's client number `number` of the time `over`, in milliseconds.
/// Shares are spread evenly: the multiplier steps by the golden ratio, so that neighbours are far
/// apart.
pub(crate) fn share(worker: WorkerId, number: u32, over: Duration) -> u64 {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let client = u64::from(worker.0) << 32 | u64::from(number);
    let share = client.wrapping_mul(GOLDEN_RATIO) >> 32;
    (share * over.as_millis() as u64) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stream_is_wanted_by_get_with_its_media_type() {
        let wants = |method: &str, fields: &str| {
            let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let request = wire::head::parse(head.as_bytes()).unwrap().unwrap();
            wants_event_stream(&request)
        };
        for accept in [
            "text/event-stream",
            "TEXT/Event-Stream ; q=1",
            "text/html, text/event-stream",
            "*/*\r\nAccept: text/event-stream",
        ] {
            assert!(wants("GET", &format!("Accept: {accept}\r\n")), "{accept}");
            assert!(!wants("HEAD", &format!("Accept: {accept}\r\n")), "{accept}");
        }
        for fields in ["", "Accept: */*\r\n", "Accept: text/event-streams\r\n"] {
            assert!(!wants("GET", fields), "{fields}");
        }
    }

    #[test]
    fn delays_are_spread_over_the_time_given() {
        let spread = Duration::from_secs(10);
        let mut delays: Vec<_> = (0..100).map(|n| delay(WorkerId(3), n, spread)).collect();
        delays.sort_unstable();
        assert!(delays[0] >= 5_000 && delays[99] < 15_000, "{delays:?}");
        let largest_gap = delays.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(largest_gap.is_some_and(|gap| gap < 300), "{delays:?}");
    }

    #[test]
    fn usual_delays_are_spread_around_the_one_that_was_set() {
        let usual = Duration::from_secs(3);
        let of_worker = |worker| (0..500).map(move |n| usual_delay(WorkerId(worker), n, usual));
        let mut delays: Vec<_> = (0..2).flat_map(of_worker).collect();
        let mean = delays.iter().sum::<u64>() / 1_000;
        assert!((2_970..=3_030).contains(&mean), "{mean}");
        delays.sort_unstable();
        assert!(delays[0] >= 1_500 && delays[999] < 4_500, "{delays:?}");
        // No tenth of the time has more than twice its share.
        for begin in (1_500..4_500).step_by(300) {
            let tenth = begin..begin + 300;
            let count = delays.iter().filter(|&at| tenth.contains(at)).count();
            assert!(count < 200, "{count} in {tenth:?}: {delays:?}");
        }
        delays.dedup();
        assert!(delays.len() > 900, "workers do not repeat each other");
        assert_eq!(usual_delay(WorkerId(1), 7, Duration::ZERO), 0);
    }
}
