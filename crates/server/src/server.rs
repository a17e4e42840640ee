//! Start of the workers, and the wait for their end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use graph::Graph;
use reactor::{
    Keepalive, ListenerOptions, Mailbox, RateLimitedWarnings, SendBuffer, SharedClock, System,
};
use router::{Recorder, Router, WORKERS_MAX, WorkerId};

use crate::external::ExternalWorker;
use crate::handle::Handle;
use crate::limits::{ACCEPT_WARNING_INTERVAL, Limits, SEND_BUFFER_BYTES_MIN, UNSENT_BYTES_MAX};
use crate::listener::{ClaimedListener, Listener};
use crate::post::{MAILBOX_WEIGHT_MAX, Post};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::start_error::StartError;
use crate::worker::Worker;

/// Connections that may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
const LISTEN_BACKLOG: i32 = 65_535;

/// Running server.
///
/// ```
/// use std::io::{Read as _, Write as _};
/// use std::net::TcpStream;
/// use std::sync::Arc;
///
/// use graph::{Graph, Id};
/// use router::{Event, Payload, Tally};
/// use server::{Listener, Server, Settings};
///
/// let listeners = vec![Listener::bind(([127, 0, 0, 1], 0).into())];
/// let graph = Arc::new(Graph::memory());
/// let server = Server::start(Settings::default(), listeners, "epoch".to_owned(), graph)?;
///
/// // A client logs in as 42. The response head shows that it has a session.
/// let mut client = TcpStream::connect(server.addresses()[0])?;
/// client.write_all(b"GET /stream/42 HTTP/1.0\r\n\r\n")?;
/// let mut bytes = [0; 512];
/// assert!(client.read(&mut bytes)? > 0);
///
/// let payload = Payload::json("1".into());
/// let event = Event { subject: Id::from(42), event_type: None, payload };
/// let accepted = server.handle().router().publish(event, &Tally::new());
/// assert_eq!(accepted.audience.online, 1);
///
/// // A drain sends what is in flight, and ends the stream.
/// server.handle().drain();
/// let mut rest = String::new();
/// client.read_to_string(&mut rest)?;
/// assert!(rest.contains(r#""data":1"#), "{rest}");
/// drop(client);
/// server.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    addresses: Box<[SocketAddr]>,
    handle: Handle,
    workers: Vec<JoinHandle<io::Result<()>>>,
    external_workers: Vec<ExternalWorker>,
}

impl Server {
    /// Starts the workers and returns when all of them listen at all of `listeners`. `epoch` names
    /// this run in event ids.
    ///
    /// # Errors
    ///
    /// See [`StartError`]. Workers that were started are stopped.
    pub fn start(
        settings: Settings,
        listeners: Vec<Listener>,
        epoch: String,
        graph: Arc<Graph>,
    ) -> Result<Self, StartError> {
        let recorder = settings.history.map(Recorder::new);
        Self::start_with(settings, listeners, epoch, graph, recorder)
    }

    /// Starts like [`Self::start`], with a history that may have events already. `epoch` must be
    /// the one that they were published in.
    ///
    /// # Errors
    ///
    /// See [`StartError`]. Workers that were started are stopped.
    pub fn start_with(
        settings: Settings,
        listeners: Vec<Listener>,
        epoch: String,
        graph: Arc<Graph>,
        recorder: Option<Recorder>,
    ) -> Result<Self, StartError> {
        let count = settings.workers;
        if count == 0 || count > WORKERS_MAX - settings.external_workers {
            return Err(StartError::Workers(count));
        }
        let places = count + settings.external_workers;
        let listeners = ClaimedListener::claim_all(listeners)?;
        if settings.live.tls.is_none()
            && let Some(listener) = listeners.iter().find(|listener| listener.is_tls())
        {
            return Err(StartError::NoCertificate(listener.address()));
        }
        let mailboxes = (0..places)
            .map(|number| {
                let mailbox = Mailbox::new(MAILBOX_WEIGHT_MAX);
                mailbox
                    .map(Arc::new)
                    .map_err(|error| StartError::Worker(number, error))
            })
            .collect::<Result<Box<[_]>, _>>()?;
        let limits = &Limits::PRODUCTION;
        let post = Post::new(mailboxes, SharedClock::system(), limits);
        let mut router = Router::new(epoch, graph, post);
        if let Some(recorder) = recorder {
            router = router.with_recorder(recorder);
        }
        if settings.presence.is_some() {
            router = router.with_moves();
        }
        let shared = Shared::new(settings, limits, router);
        let mut server = Self {
            addresses: listeners.iter().map(ClaimedListener::address).collect(),
            handle: Handle {
                shared: Arc::clone(&shared),
            },
            workers: Vec::with_capacity(usize::from(count)),
            external_workers: (count..places)
                .map(|number| ExternalWorker::new(WorkerId(number), Arc::clone(&shared)))
                .collect(),
        };
        let warnings = RateLimitedWarnings::new(ACCEPT_WARNING_INTERVAL);
        let (ready, readiness) = mpsc::sync_channel(usize::from(count));
        for number in 0..count {
            let parts = Parts {
                id: WorkerId(number),
                shared: Arc::clone(&shared),
                warnings: warnings.clone(),
            };
            let own = listeners.iter().map(ClaimedListener::for_worker);
            let own = own
                .collect::<io::Result<Vec<_>>>()
                .map_err(|error| StartError::Worker(number, error));
            match own.and_then(|own| server.spawn(parts, own, ready.clone())) {
                Ok(()) => {}
                Err(error) => return Err(server.abandon(error)),
            }
        }
        drop(ready);
        for (number, result) in readiness {
            if let Err(error) = result {
                return Err(server.abandon(StartError::Worker(number, error)));
            }
        }
        Ok(server)
    }

    fn spawn(
        &mut self,
        parts: Parts,
        listeners: Vec<Listener>,
        ready: mpsc::SyncSender<(u16, io::Result<()>)>,
    ) -> Result<(), StartError> {
        let number = parts.id.0;
        let private_fds = parts.shared.settings.private_fds;
        // With a private table the worker must open its sockets itself, on its own thread.
        let run = move |table: io::Result<()>| match table.and_then(|()| parts.build(listeners)) {
            Ok(worker) => {
                let _ = ready.send((number, Ok(())));
                drop(ready);
                worker.run()
            }
            Err(error) => {
                let _ = ready.send((number, Err(error)));
                Ok(())
            }
        };
        let thread = reactor::spawn(format!("encke-{number}"), private_fds, run)
            .map_err(|error| StartError::Worker(number, error))?;
        self.workers.push(thread);
        Ok(())
    }

    /// Stops the workers that were started before one failed.
    fn abandon(self, error: StartError) -> StartError {
        self.handle.drain();
        let _ = self.join();
        error
    }

    /// Returns the addresses of the public listeners, in the order in which they were given.
    pub const fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes one of the external workers that the settings ask for; `None` when all are taken.
    pub fn take_external_worker(&mut self) -> Option<ExternalWorker> {
        self.external_workers.pop()
    }

    /// Returns the handle for other threads.
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until all workers have ended. They end after [`Handle::drain`], within the drain
    /// timeout: each stream gets a farewell, and backlogs are flushed.
    ///
    /// # Errors
    ///
    /// When a worker's poller failed, or a worker panicked.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for worker in self.workers {
            let ended = worker
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            result = result.and(ended);
        }
        if let Some(publishing) = self.handle.shared.client_publishing.get() {
            publishing.end();
        }
        result
    }
}

/// Bounds what the kernel keeps for a client. It doubles the number: so a client that reads nothing
/// costs at most `backlog_bytes` there, and as much again in its backlog.
fn send_buffer(backlog_bytes: usize) -> SendBuffer {
    let bytes = u32::try_from(backlog_bytes / 2).unwrap_or(u32::MAX);
    SendBuffer {
        bytes: bytes.clamp(SEND_BUFFER_BYTES_MIN, i32::MAX as u32),
        unsent: UNSENT_BYTES_MAX,
    }
}

/// Probes of silent clients. Heartbeats find out who is gone. Without them, probes do; beside them,
/// probes would wake each phone once more a minute, and in a server that was stopped for a while
/// those of all clients fall due in one moment, in which the kernel drops most of them.
fn keepalive(heartbeat: Duration, user_timeout: Duration) -> Keepalive {
    match heartbeat.is_zero() {
        true => Keepalive::new(user_timeout, user_timeout),
        false => Keepalive::beyond(3 * heartbeat, user_timeout),
    }
}

/// Parts of a worker.
struct Parts {
    id: WorkerId,
    shared: Arc<Shared>,
    warnings: RateLimitedWarnings,
}

impl Parts {
    fn build(self, listeners: Vec<Listener>) -> io::Result<Worker<System>> {
        let settings = &self.shared.settings;
        let options = ListenerOptions {
            backlog: LISTEN_BACKLOG,
            user_timeout: settings.user_timeout,
            keepalive: Some(keepalive(settings.live.heartbeat, settings.user_timeout)),
            defer_accept: None,
            fast_open: None,
            send_buffer: Some(send_buffer(settings.live.backlog_bytes)),
        };
        let driver = System::new(self.shared.mailbox(self.id).as_ref())?;
        let mut worker = Worker::new(self.id, self.shared, self.warnings, driver);
        for listener in listeners {
            listener.open(&mut worker.acceptor, &mut worker.table.driver, &options)?;
        }
        Ok(worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::YOUNG;
    use crate::settings::LiveSettings;

    /// How late the kernel was to end connections whose peers had vanished (docs/RELIABILITY.md).
    const KERNEL_LATE: Duration = Duration::from_millis(2500);

    // A heartbeat in 25 s and 25 s for its acknowledgement kept quiet peers for 52.5 s.
    #[test]
    fn by_default_a_peer_that_has_vanished_is_freed_within_40_seconds() {
        let (heartbeat, user_timeout) = defaults();
        let longest = heartbeat + heartbeat / YOUNG + user_timeout + KERNEL_LATE;
        assert!(longest <= Duration::from_secs(40), "{longest:?}");
    }

    #[test]
    fn by_default_nothing_is_probed_in_a_server_that_stands_still_for_40_seconds() {
        let (heartbeat, user_timeout) = defaults();
        let silence = heartbeat + heartbeat / YOUNG + Duration::from_secs(40);
        assert!(keepalive(heartbeat, user_timeout).idle > silence);
    }

    fn defaults() -> (Duration, Duration) {
        let heartbeat = LiveSettings::default().heartbeat;
        (heartbeat, Settings::default().user_timeout)
    }
}
