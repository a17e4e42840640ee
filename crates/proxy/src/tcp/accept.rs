//! Stage 1: new connections.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Accepted, Relay, SlotKey, Tick};

use crate::complaints::Complaint;
use crate::tcp::balance::Tried;
use crate::tcp::closing::CloseReason;
use crate::tcp::front::Front;
use crate::tcp::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN};
use crate::tcp::names::{Side, Watched};
use crate::tcp::pair::{Flow, Origin, Pair, Phase, Tenths};
use crate::tcp::settings::Balance;
use crate::tcp::stats::Metric;
use crate::tcp::worker::Worker;

/// Where a worker accepts.
#[derive(Debug)]
pub(crate) struct Accepting<L> {
    pub(crate) open: Vec<Open<L>>,
    next_id: u32,
    /// While descriptors have run out: listeners stay readable then and would spin the loop.
    paused_until: Option<Tick>,
}

/// A listener and its settings, which a reload replaces.
#[derive(Debug)]
pub(crate) struct Open<L> {
    pub(crate) id: u32,
    pub(crate) listener: L,
    pub(crate) front: Arc<Front>,
}

impl<L> Default for Accepting<L> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            next_id: 0,
            paused_until: None,
        }
    }
}

impl<L> Accepting<L> {
    pub(crate) fn resume_in(&self, now: Tick) -> Option<Duration> {
        self.paused_until.map(|until| until.since(now))
    }
}

impl<D: Relay> Worker<D> {
    /// Opens a listener for `front`.
    ///
    /// # Errors
    ///
    /// Those of [`Relay::listen`].
    pub(crate) fn listen(&mut self, front: &Arc<Front>) -> io::Result<()> {
        let id = self.accepting.next_id;
        let token = Watched::Listener(id).token();
        let options = front.listener_options();
        let listener = self.driver.listen(front.address, &options, token)?;
        if self.accepting.paused_until.is_some() {
            self.driver.pause_listener(&listener, token, true);
        }
        self.accepting.next_id += 1;
        self.accepting.open.push(Open {
            id,
            listener,
            front: Arc::clone(front),
        });
        Ok(())
    }

    pub(crate) fn accept(&mut self, id: u32) {
        let Some(open) = self.accepting.open.iter().find(|open| open.id == id) else {
            return;
        };
        let front = Arc::clone(&open.front);
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.accept_one(id, &front) {
                return;
            }
        }
    }

    /// Accepts everybody who waits: the listener is about to be closed, and they would be reset.
    pub(crate) fn accept_all(&mut self, id: u32) {
        let Some(open) = self.accepting.open.iter().find(|open| open.id == id) else {
            return;
        };
        let front = Arc::clone(&open.front);
        while self.accept_one(id, &front) {}
    }

    /// Returns whether there may be others.
    fn accept_one(&mut self, id: u32, front: &Arc<Front>) -> bool {
        let Some(open) = self.accepting.open.iter().find(|open| open.id == id) else {
            return false;
        };
        self.stats.add(Metric::Accepts, 1);
        match self.driver.accept_from(&open.listener) {
            Accepted::Connection(socket, peer) => self.admit(front, socket, peer),
            Accepted::Nobody => return false,
            Accepted::Gone => {}
            Accepted::Exhausted(errno) => {
                self.pause_accepting(errno.into());
                return false;
            }
        }
        true
    }

    fn admit(&mut self, front: &Arc<Front>, client: D::Socket, peer: SocketAddr) {
        self.stats.add(Metric::Accepted, 1);
        let settings = &front.settings;
        if front.counts.enter(settings.max_connections).is_err() {
            // Dropping the socket closes it.
            self.stats.add(Metric::Closes, 1);
            return self.stats.add(Metric::RefusedListener, 1);
        }
        self.stats.add(Metric::Connections, 1);
        let is_asked_for = settings.access_log
            || settings.proxy_in.is_some()
            || settings.proxy_out.is_some()
            || settings.max_connections_per_source.is_some()
            || settings.balance == Balance::Source;
        let origin = is_asked_for.then(|| {
            Box::new(Origin {
                source: peer,
                destination: None,
                since: self.now,
                counted: false,
            })
        });
        let greeting = settings.proxy_in;
        let key = self.pairs.insert(Pair {
            client,
            backend: None,
            front: Arc::clone(front),
            server: None,
            up: Flow::default(),
            down: Flow::default(),
            origin,
            bytes_up: 0,
            bytes_down: 0,
            tried: Tried::default(),
            asked: 0,
            moved: Tenths::of(self.now),
            phase: Phase::Greeting,
            room_watched: false,
        });
        let client = &self.pairs.get_mut(key).expect("just added").client;
        let token = Watched::Pair(key, Side::Client).token();
        self.stats.add(Metric::Watches, 1);
        if let Err(error) = self.driver.watch(client, token) {
            // The kernel's memory for watches has run out: as good as no descriptor.
            self.close(key, CloseReason::NoBackend);
            return self.pause_accepting(error);
        }
        match greeting {
            Some(timeout) => self.deadlines.add(self.now.after(timeout), key),
            None => self.enter_source(key),
        }
    }

    /// Counts the client's source in and goes on, unless it has as many connections as it may.
    pub(crate) fn enter_source(&mut self, key: SlotKey) {
        let Some(pair) = self.pair(key) else {
            return;
        };
        if let (Some(limit), Some(origin)) = (
            pair.front.settings.max_connections_per_source,
            pair.origin.as_deref_mut(),
        ) {
            origin.counted = pair
                .front
                .counts
                .enter_source(origin.source.ip(), limit)
                .is_ok();
            if !origin.counted {
                self.stats.add(Metric::RefusedSource, 1);
                return self.close(key, CloseReason::Refused);
            }
        }
        self.connect(key);
    }

    pub(crate) fn pause_accepting(&mut self, error: io::Error) {
        if self.accepting.paused_until.is_none() {
            self.stats.add(Metric::AcceptPauses, 1);
            self.pause_listeners(true);
        }
        self.accepting.paused_until = Some(self.now.after(ACCEPT_PAUSE));
        let worker = self.number;
        self.complaints.note(self.now, Complaint::Descriptors, "", || {
            format!(
                "worker {worker} has no room for another connection, accepting pauses: {error}; \
                 each takes two descriptors: raise the limit on open files (ulimit -n, \
                 LimitNOFILE=) or use --workers N --private-fds"
            )
        });
    }

    /// Accepts again when the pause is over.
    pub(crate) fn resume_accepting(&mut self) {
        if self
            .accepting
            .paused_until
            .is_some_and(|until| until <= self.now)
        {
            self.accepting.paused_until = None;
            self.pause_listeners(false);
        }
    }

    fn pause_listeners(&mut self, paused: bool) {
        for open in &self.accepting.open {
            let token = Watched::Listener(open.id).token();
            self.driver.pause_listener(&open.listener, token, paused);
        }
    }

    /// A descriptor is free: no need to wait the pause out.
    pub(crate) fn resume_soon(&mut self) {
        if self.accepting.paused_until.is_some() {
            self.accepting.paused_until = Some(self.now);
        }
    }

    /// Stops accepting wherever `keep` does not say to go on.
    pub(crate) fn close_listeners(&mut self, keep: impl Fn(SocketAddr) -> bool) {
        let going: Vec<u32> = self
            .accepting
            .open
            .iter()
            .filter(|open| !keep(open.front.address))
            .map(|open| open.id)
            .collect();
        for id in going {
            self.accept_all(id);
            // Who came since is reset: the kernel has no way to hand a waiting connection on.
            let open = mem::take(&mut self.accepting.open);
            self.accepting.open = open.into_iter().filter(|open| open.id != id).collect();
        }
    }
}
