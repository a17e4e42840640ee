//! Stage 3: connecting to a backend, and to another one if that fails.
//!
//! Nothing is received from the client before a connection is established: its bytes stay in the
//! kernel, so that a failed attempt loses none of them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reactor::{RateLimitedWarnings, RelayDriver, SlotKey, Tenths};
use rustix::io::Errno;

use crate::tcp::backend::Backend;
use crate::tcp::balance;
use crate::tcp::close_reason::CloseReason;
use crate::tcp::effect::Effect;
use crate::tcp::metrics::Metric;
use crate::tcp::pair::{Phase, Side};
use crate::tcp::pair_table::PairTable;
use crate::tcp::socket_id::SocketId;

/// Begins to connect to the backend that the listener's policy chooses. If an attempt fails at
/// once, tries the next backend.
pub(crate) fn begin<D: RelayDriver>(
    table: &mut PairTable<D>,
    key: SlotKey,
    warnings: &RateLimitedWarnings,
) -> Effect {
    loop {
        let now = table.now();
        let Some(pair) = table.get(key) else {
            return Effect::Wait;
        };
        let settings = &pair.frontend.settings;
        let source = pair.client_info.as_deref().map(|info| info.source.ip());
        let spent = pair.tried.count() > u32::from(settings.retries);
        let chosen = balance::choose(&pair.frontend, source, pair.tried, now).filter(|_| !spent);
        let Some(index) = chosen else {
            let listener = pair.frontend.address;
            warnings.warn(now, "no backend", &listener.to_string(), || {
                format!(
                    "no backend took a connection that came to {listener}, and the client was \
                     reset; check that a backend runs and is reachable"
                )
            });
            return Effect::Close(CloseReason::NoBackend);
        };
        let is_retry = pair.tried.count() > 0;
        pair.tried.add(index);
        let backend = Arc::clone(&pair.frontend.backends[index]);
        table.counters.add(Metric::Retries, u64::from(is_retry));
        match attempt(table, key, &backend) {
            Ok(()) => return Effect::Wait,
            Err(error) if is_local(&error) => return Effect::Exhausted(error),
            Err(error) => record_failure(table, key, &backend, &error, warnings),
        }
    }
}

/// Completes an attempt to connect: the pair is open from now on.
///
/// # Errors
///
/// The error of the attempt. The caller passes it to [`fail`].
pub(crate) fn complete<D: RelayDriver>(table: &mut PairTable<D>, key: SlotKey) -> io::Result<()> {
    let Some(entry) = table.entry(key) else {
        return Ok(());
    };
    let pair = entry.pair;
    if let Some(server) = &pair.server {
        entry.driver.connected(server)?;
    }
    pair.phase = Phase::Open;
    pair.last_activity = Tenths::of(entry.now);
    if let Some(backend) = &pair.backend {
        backend.record_success();
    }
    Ok(())
}

/// Cleans up after an attempt that failed or timed out, so that another one may begin.
pub(crate) fn fail<D: RelayDriver>(
    table: &mut PairTable<D>,
    key: SlotKey,
    error: &io::Error,
    warnings: &RateLimitedWarnings,
) -> Effect {
    let Some(entry) = table.entry(key) else {
        return Effect::Wait;
    };
    let closed = entry.pair.server.take().is_some();
    entry.counters.add(Metric::Closes, u64::from(closed));
    // An end that was announced belonged to the failed attempt.
    entry.pair.down.end_announced = false;
    if let Some(backend) = entry.pair.backend.take() {
        backend.connections.fetch_sub(1, Ordering::Relaxed);
        record_failure(table, key, &backend, error, warnings);
    }
    Effect::Connect
}

fn attempt<D: RelayDriver>(
    table: &mut PairTable<D>,
    key: SlotKey,
    backend: &Arc<Backend>,
) -> io::Result<()> {
    let Some(entry) = table.entry(key) else {
        return Ok(());
    };
    let pair = entry.pair;
    entry.counters.add(Metric::Connects, 1);
    entry.counters.add(Metric::Dials, 1);
    backend.record_attempt();
    let options = pair.frontend.connect_options();
    let token = SocketId::Pair(key, Side::Backend).token();
    let server = entry.driver.connect(backend.address, &options, token)?;
    entry.counters.add(Metric::Watches, 1);
    backend.connections.fetch_add(1, Ordering::Relaxed);
    pair.server = Some(server);
    pair.backend = Some(Arc::clone(backend));
    pair.phase = Phase::Connecting;
    pair.last_activity = Tenths::of(entry.now);
    let timeout = pair.frontend.settings.connect_timeout;
    table.arm_timer(key, timeout);
    Ok(())
}

fn record_failure<D: RelayDriver>(
    table: &mut PairTable<D>,
    key: SlotKey,
    backend: &Backend,
    error: &io::Error,
    warnings: &RateLimitedWarnings,
) {
    let Some(entry) = table.entry(key) else {
        return;
    };
    entry.counters.add(Metric::ConnectsFailed, 1);
    let settings = &entry.pair.frontend.settings;
    let ejected = backend.record_failure(settings, entry.now);
    // An ejection is logged even if a failure of the same backend was logged a moment ago.
    let kind = match ejected {
        Some(_) => "ejected",
        None => "backend",
    };
    warnings.warn(entry.now, kind, &backend.name, || {
        explain(backend, error, ejected, settings.connect_timeout)
    });
}

/// Returns whether an error is caused by this process and says nothing about the backend.
pub(crate) fn is_local(error: &io::Error) -> bool {
    let local = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::NOSPC,
    ];
    Errno::from_io_error(error).is_some_and(|errno| local.contains(&errno))
}

/// Describes an error and what an operator can do about it.
fn explain(
    backend: &Backend,
    error: &io::Error,
    ejected: Option<Duration>,
    connect_timeout: Duration,
) -> String {
    let name = backend.shown();
    let what = match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => format!(
            "backend {name} refused a connection: no program listens at its address; start it"
        ),
        Some(Errno::TIMEDOUT) => format!(
            "backend {name} did not answer within {connect_timeout:?}; check that it is up and \
             that no firewall drops packets, or raise --connect-timeout"
        ),
        Some(Errno::ADDRNOTAVAIL) => format!(
            "no port is left for another connection to backend {name}; widen \
             net.ipv4.ip_local_port_range or give the backend more addresses"
        ),
        _ => format!("backend {name} could not be reached: {error}"),
    };
    match ejected {
        Some(pause) => format!("{what}; it is left alone for {pause:?}"),
        None => what,
    }
}
