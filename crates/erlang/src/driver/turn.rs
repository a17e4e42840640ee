//! The thread's loop: wait, read, act, send.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Accepted, Driver as _, Received, Sent, Signal, System, Tick, Timing, Token};
use router::Mailboxes;
use server::{ExternalWorker, WorkerCommand};

use super::Notes;
use super::dial::{self, Dialed};
use super::keeper::Keeper;
use crate::limits::{ACCEPTS_PER_TURN, BLOCK_BYTES, READS_PER_TURN};
use crate::lines::LineId;
use crate::metrics::Metric;
use crate::node::{Effect, Node};

/// The node with its sockets.
pub(super) struct Driver<M> {
    node: Node<M>,
    worker: Arc<ExternalWorker>,
    system: System,
    sockets: HashMap<LineId, Socket>,
    notes: Arc<Notes>,
    epmd_port: u16,
    keeper: Option<Keeper>,
    /// Connections that may hold bytes and will not signal again.
    unread: Vec<LineId>,
    block: Vec<u8>,
    signals: Vec<Signal>,
    timing: Timing,
    is_draining: bool,
}

struct Socket {
    socket: OwnedFd,
    /// Whether room to send is signalled.
    is_room_watched: bool,
    /// Whether it is not read on until it has taken more of what it is owed.
    is_paused: bool,
}

/// What nobody can foretell.
pub(super) fn random_u32() -> io::Result<u32> {
    let mut bytes = [0; 4];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    debug_assert_eq!(count, bytes.len(), "so few bytes come at once");
    Ok(u32::from_ne_bytes(bytes))
}

impl<M: Mailboxes> Driver<M> {
    pub(super) fn new(
        node: Node<M>,
        worker: Arc<ExternalWorker>,
        listener: OwnedFd,
        epmd_port: u16,
        keeper: Option<Keeper>,
    ) -> io::Result<Self> {
        let system = System::new(listener, worker.as_ref())?;
        Ok(Self {
            node,
            worker,
            system,
            sockets: HashMap::new(),
            notes: Arc::default(),
            epmd_port,
            keeper,
            unread: Vec::new(),
            block: vec![0; BLOCK_BYTES],
            signals: Vec::new(),
            timing: Timing::default(),
            is_draining: false,
        })
    }

    /// Takes turns until the server ends.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.is_draining {
            self.turn()?;
        }
        self.worker.close_mailbox();
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        self.system.wait(timeout, &mut self.signals)?;
        self.worker.wake_up();
        let elapsed = self.system.elapsed();
        self.timing
            .begin(elapsed, self.signals.len(), &self.node.metrics);
        self.node.set_time(Tick::default().after(elapsed));
        let unread = std::mem::take(&mut self.unread);
        for line in unread {
            self.read(line)?;
        }
        let signals = std::mem::take(&mut self.signals);
        for signal in &signals {
            match signal.token {
                Token::LISTENER => self.accept()?,
                Token::MAILBOX => {}
                line => self.on_signal(LineId(line.number() as u32), *signal)?,
            }
        }
        self.signals = signals;
        self.take_notes()?;
        self.run_commands();
        self.node.answer_settled();
        self.keep_spellings();
        self.node.meet_deadlines();
        self.flush();
        self.settle();
        self.act();
        Ok(())
    }

    fn timeout(&mut self) -> Option<Duration> {
        // What comes after the announcement rings.
        let may_sleep = self.worker.may_sleep();
        let is_busy = !self.unread.is_empty()
            || self.node.is_busy()
            || !self.node.lines.touched.is_empty()
            || !self.notes.0.lock().is_empty();
        if is_busy || !may_sleep {
            return Some(Duration::ZERO);
        }
        self.timing.rest(self.system.elapsed(), &self.node.metrics);
        self.node.timeout()
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_TURN {
            self.node.metrics.add(Metric::Accepts, 1);
            match self.system.accept() {
                Accepted::Connection(socket, address) => {
                    let Some(line) = self.node.accepted(address, random_u32()?) else {
                        continue;
                    };
                    self.watch(line, socket);
                }
                Accepted::Gone => {}
                Accepted::Nobody => return Ok(()),
                Accepted::Exhausted(errno) => {
                    tracing::warn!("an Erlang node cannot be accepted: {errno}");
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn watch(&mut self, line: LineId, socket: OwnedFd) {
        let token = Token::tagged_number(0, line.0.into());
        self.node.metrics.add(Metric::Watches, 1);
        if self.system.watch(&socket, token).is_err() {
            return self.node.ended(line);
        }
        let socket = Socket {
            socket,
            is_room_watched: false,
            is_paused: false,
        };
        self.sockets.insert(line, socket);
    }

    fn on_signal(&mut self, line: LineId, signal: Signal) -> io::Result<()> {
        if signal.writable {
            self.node.lines.touch(line);
        }
        if signal.readable {
            self.read(line)?;
        }
        Ok(())
    }

    /// Reads a connection for its share of the turn.
    fn read(&mut self, line: LineId) -> io::Result<()> {
        for _ in 0..READS_PER_TURN {
            let Some(socket) = self.sockets.get_mut(&line) else {
                return Ok(());
            };
            if !self.node.is_wanted(line) {
                socket.is_paused = true;
                return Ok(());
            }
            self.node.metrics.add(Metric::Receives, 1);
            match self.system.recv(&socket.socket, &mut self.block) {
                Received::Bytes(count) => {
                    self.node.metrics.add(Metric::BytesRead, count as u64);
                    self.node.receive(line, &self.block[..count]);
                }
                Received::Blocked => return Ok(()),
                Received::Ended | Received::Failed(_) => {
                    self.node.ended(line);
                    return Ok(());
                }
            }
        }
        self.unread.push(line);
        Ok(())
    }

    /// Takes what became of calls to other nodes.
    fn take_notes(&mut self) -> io::Result<()> {
        let notes = std::mem::take(&mut *self.notes.0.lock());
        for Dialed { line, outcome } in notes {
            match outcome {
                Ok(answered) => {
                    let challenge = random_u32()?;
                    let (address, version) = (answered.address, answered.version);
                    if self.node.dialed(line, address, version, challenge) {
                        self.watch(line, answered.socket);
                    }
                }
                Err(error) => {
                    tracing::debug!("an Erlang node cannot be reached: {error}");
                    self.node.ended(line);
                }
            }
        }
        Ok(())
    }

    fn run_commands(&mut self) {
        let commands: Vec<_> = self.worker.take_commands().collect();
        for command in commands {
            match command {
                WorkerCommand::Deliver(parcel) => self.node.deliver(parcel),
                WorkerCommand::Inspect(recipients, report) => report(self.node.report(&recipients)),
                WorkerCommand::Close(recipients) => self.node.close_sessions(&recipients),
                WorkerCommand::Drain => self.is_draining = true,
            }
        }
    }

    /// Puts on disk how ids were spelt, before the calls that put them in are answered.
    fn keep_spellings(&mut self) {
        let spellings = &mut self.node.desk.spellings;
        if let Some(keeper) = &mut self.keeper
            && let Err(error) = keeper.keep(spellings)
        {
            tracing::error!(
                "how Erlang nodes spell ids is kept on disk no more: {error}; after a restart, ids that are \
                 new from now on come back as binaries"
            );
            spellings.keep_no_more();
            self.keeper = None;
        }
    }

    /// Sends what is owed, as far as sockets take it.
    fn flush(&mut self) {
        let mut touched = std::mem::take(&mut self.node.lines.touched);
        touched.sort_unstable();
        touched.dedup();
        for line in touched {
            self.flush_one(line);
        }
    }

    fn flush_one(&mut self, id: LineId) {
        let now = self.system.now();
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        while let Some(line) = self.node.lines.get_mut(id) {
            line.pump();
            if line.out.is_empty() {
                line.stalled = None;
                if std::mem::take(&mut socket.is_paused) {
                    self.unread.push(id);
                }
                return;
            }
            self.node.metrics.add(Metric::Sends, 1);
            match self.system.send(&socket.socket, &[line.out.unsent()]) {
                Sent::Bytes(count) => {
                    self.node.metrics.add(Metric::BytesWritten, count as u64);
                    line.out.advance(count);
                    line.said = now;
                    line.stalled = None;
                }
                Sent::Blocked => {
                    line.stalled.get_or_insert(now);
                    if !socket.is_room_watched {
                        socket.is_room_watched = true;
                        let token = Token::tagged_number(0, id.0.into());
                        self.node.metrics.add(Metric::Watches, 1);
                        if self.system.watch_writable(&socket.socket, token).is_err() {
                            self.node.ended(id);
                        }
                    }
                    return;
                }
                Sent::Failed(_) => return self.node.ended(id),
            }
        }
    }

    fn settle(&mut self) {
        for (parcel, counts) in self.node.take_delivered() {
            self.worker.complete(&parcel, counts);
        }
    }

    /// Does what the node asks for.
    fn act(&mut self) {
        for effect in std::mem::take(&mut self.node.effects) {
            match effect {
                Effect::Dial(line, name) => {
                    dial::dial(line, name, self.epmd_port, &self.notes, &self.worker);
                }
                Effect::Close(line, last) => {
                    if let Some(socket) = self.sockets.remove(&line)
                        && !last.is_empty()
                    {
                        // A refusal, which fits a socket that was hardly used; if not, so be it.
                        let _ = self.system.send(&socket.socket, &[&last]);
                    }
                }
            }
        }
    }
}
