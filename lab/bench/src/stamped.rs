//! Stamped events at a fixed rate, and the latencies of their receivers.

use std::thread;
use std::time::{Duration, Instant};

use client::stamp::Stamp;
use machine::clock::realtime_nanos;

use crate::processes::Clients;
use load::latency::Latency;
use machine::failure::Outcome;

/// Publishes for `length` at `rate` events a second. Each event is stamped with the time at which
/// it was due, so that a late publish counts as latency. Returns the number of events.
pub(crate) fn publish_stamped(
    rate: u32,
    length: Duration,
    mut publish: impl FnMut(&[u8]) -> Outcome<()>,
) -> Outcome<u64> {
    let interval = Duration::from_secs(1) / rate;
    let (begun, begun_nanos) = (Instant::now(), realtime_nanos());
    let (mut due, mut sent) = (Duration::ZERO, 0);
    while due < length {
        if let Some(early) = due.checked_sub(begun.elapsed()) {
            thread::sleep(early);
        }
        sent += 1;
        let stamp = Stamp {
            due: begun_nanos + u64::try_from(due.as_nanos()).unwrap_or(u64::MAX),
            number: sent,
        };
        let mut payload = b"{".to_vec();
        stamp.append(&mut payload);
        payload.push(b'}');
        publish(&payload)?;
        due += interval;
    }
    Ok(sent)
}

/// Waits until all `sent` stamped events have arrived, at most for `patience`, and returns the
/// latencies.
pub(crate) fn await_latencies(
    clients: &mut Clients,
    sent: u64,
    patience: Duration,
) -> Outcome<Latency> {
    let until = Instant::now() + patience;
    loop {
        let seen = clients.seen()?;
        if seen.totals.latency.count >= sent || Instant::now() > until {
            return Ok(seen.totals.latency);
        }
        thread::sleep(Duration::from_millis(10));
    }
}
