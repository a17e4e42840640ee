//! Stage 3: a connection to a backend, and to another if that fails.
//!
//! The client is not read before: what it has said stays in the kernel, and no attempt loses any of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reactor::{Relay, SlotKey};
use rustix::io::Errno;

use crate::complaints::Complaint;
use crate::tcp::backend::Backend;
use crate::tcp::balance;
use crate::tcp::closing::CloseReason;
use crate::tcp::front::Front;
use crate::tcp::names::{Side, Watched};
use crate::tcp::pair::{Direction, Phase, Tenths};
use crate::tcp::stats::Metric;
use crate::tcp::worker::Worker;

impl<D: Relay> Worker<D> {
    /// Begins to connect to the backend whose turn it is, or the next if that fails at once.
    pub(crate) fn connect(&mut self, key: SlotKey) {
        loop {
            let now = self.now;
            let Some(pair) = self.pair(key) else {
                return;
            };
            let front = Arc::clone(&pair.front);
            let source = pair.origin.as_deref().map(|origin| origin.source.ip());
            let spent = pair.tried.count() > u32::from(front.settings.retries);
            let chosen = balance::choose(&front, source, pair.tried, now).filter(|_| !spent);
            let Some(index) = chosen else {
                return self.give_up(key, &front);
            };
            let is_another = pair.tried.count() > 0;
            pair.tried.add(index);
            self.stats.add(Metric::Retries, u64::from(is_another));
            let backend = &front.backends[index];
            match self.try_backend(key, &front, backend) {
                Ok(()) => return,
                Err(error) if is_ours(&error) => {
                    self.close(key, CloseReason::NoBackend);
                    return self.pause_accepting(error);
                }
                Err(error) => self.note_failure(&front, backend, &error),
            }
        }
    }

    fn try_backend(
        &mut self,
        key: SlotKey,
        front: &Arc<Front>,
        backend: &Arc<Backend>,
    ) -> io::Result<()> {
        self.stats.add(Metric::Connects, 1);
        let options = front.connect_options();
        let token = Watched::Pair(key, Side::Backend).token();
        self.stats.add(Metric::Dials, 1);
        backend.begun();
        let socket = self.driver.connect(backend.address, &options, token)?;
        self.stats.add(Metric::Watches, 1);
        let until = self.now.after(front.settings.connect_timeout);
        let moved = Tenths::of(self.now);
        if let Some(pair) = self.pair(key) {
            backend.connections.fetch_add(1, Ordering::Relaxed);
            pair.backend = Some(socket);
            pair.server = Some(Arc::clone(backend));
            pair.phase = Phase::Connecting;
            pair.moved = moved;
        }
        self.deadlines.add(until, key);
        Ok(())
    }

    /// The attempt has come to something. Returns whether that is a connection.
    pub(crate) fn on_connected(&mut self, key: SlotKey) -> bool {
        let Some(pair) = self.pairs.get_mut(key) else {
            return false;
        };
        let Some(socket) = &pair.backend else {
            return false;
        };
        if let Err(errno) = self.driver.connected(socket) {
            self.try_another(key, &errno.into());
            return false;
        }
        pair.phase = Phase::Open;
        pair.moved = Tenths::of(self.now);
        if let Some(server) = &pair.server {
            server.succeeded();
        }
        let header = self.introduce(key);
        let Some(pair) = self.pair(key) else {
            return false;
        };
        if pair.up.unread || pair.up.held.is_some() {
            pair.up.unread = false;
            self.pump(key, Direction::Up);
        }
        // A header is nothing that the client has said: neither a request nor among its bytes.
        if header > 0
            && let Some(pair) = self.pair(key)
        {
            pair.bytes_up = pair.bytes_up.saturating_sub(header);
            if pair.bytes_up == 0 {
                pair.asked = 0;
            }
        }
        true
    }

    /// The attempt has taken too long.
    pub(crate) fn on_connect_timeout(&mut self, key: SlotKey) {
        self.try_another(key, &Errno::TIMEDOUT.into());
    }

    fn try_another(&mut self, key: SlotKey, error: &io::Error) {
        let Some(pair) = self.pair(key) else {
            return;
        };
        let closed = pair.backend.take().is_some();
        // What has ended was the attempt's.
        pair.down.ended = false;
        let front = Arc::clone(&pair.front);
        let server = pair.server.take();
        self.stats.add(Metric::Closes, u64::from(closed));
        if let Some(server) = server {
            server.connections.fetch_sub(1, Ordering::Relaxed);
            self.note_failure(&front, &server, error);
        }
        self.connect(key);
    }

    fn note_failure(&mut self, front: &Front, backend: &Backend, error: &io::Error) {
        self.stats.add(Metric::ConnectsFailed, 1);
        let ejected = backend.failed(&front.settings, self.now);
        let connect_timeout = front.settings.connect_timeout;
        let say = || said(backend, error, ejected, connect_timeout);
        // That it is left alone is news of its own, though it may just have been complained of.
        let kind = match ejected {
            Some(_) => Complaint::Ejected,
            None => Complaint::Backend,
        };
        self.complaints.note(self.now, kind, &backend.name, say);
    }

    fn give_up(&mut self, key: SlotKey, front: &Front) {
        let listener = front.address;
        self.close(key, CloseReason::NoBackend);
        let key = listener.to_string();
        self.complaints.note(self.now, Complaint::NoBackend, &key, || {
            format!(
                "no backend took a connection that came to {listener}: it was reset; see that one \
                 of them runs and is reachable"
            )
        });
    }
}

/// Whether a failure says something of this process and not of the backend.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    let ours = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::NOSPC,
    ];
    Errno::from_io_error(error).is_some_and(|errno| ours.contains(&errno))
}

/// What went wrong, and what to do.
fn said(
    backend: &Backend,
    error: &io::Error,
    ejected: Option<Duration>,
    connect_timeout: Duration,
) -> String {
    let name = backend.shown();
    let what = match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => {
            format!("backend {name} refused a connection: nobody listens there; start it")
        }
        Some(Errno::TIMEDOUT) => format!(
            "backend {name} did not answer within {connect_timeout:?}; see whether it is up and no \
             firewall drops packets, or raise --connect-timeout"
        ),
        Some(Errno::ADDRNOTAVAIL) => format!(
            "no port is left for another connection to backend {name}; widen \
             net.ipv4.ip_local_port_range or give it more addresses"
        ),
        _ => format!("backend {name} could not be reached: {error}"),
    };
    match ejected {
        Some(pause) => format!("{what}; it is left alone for {pause:?}"),
        None => what,
    }
}
