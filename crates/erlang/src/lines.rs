//! The connections of a node, and what is owed over each.
//!
//! Owns which node is called what and by which connection it is reached. Must never decide what is said.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use reactor::Tick;

use crate::limits::{ANSWERS_BYTES_MAX, OWED_BYTES_MAX, WAITING_BYTES_MAX, WAITING_MAX};
use crate::link::Link;
use crate::outbox::Outbox;

/// Names a connection, or the attempt at one. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LineId(pub(crate) u32);

/// One connection, from the attempt to its end.
#[derive(Debug)]
pub(crate) struct Line {
    /// `None` while its bytes are read, and before there is a connection.
    pub(crate) link: Option<Link>,
    pub(crate) out: Outbox,
    /// The node at the other end, when it is known.
    pub(crate) peer: Option<Rc<Remote>>,
    pub(crate) is_up: bool,
    /// The other end's address.
    pub(crate) address: Option<SocketAddr>,
    /// Whether this side calls.
    pub(crate) is_caller: bool,
    pub(crate) began: Tick,
    pub(crate) heard: Tick,
    pub(crate) said: Tick,
    /// Since when something is owed and nothing was taken.
    pub(crate) stalled: Option<Tick>,
    /// Deliveries for which there was no room.
    waiting: VecDeque<Waiting>,
    waiting_targets: usize,
    waiting_bytes: usize,
}

/// A node as its connection knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) name: Box<str>,
    pub(crate) creation: u32,
    pub(crate) has_alias: bool,
}

/// One event's message for processes of one node.
#[derive(Debug)]
struct Waiting {
    message: Rc<[u8]>,
    pids: VecDeque<(u32, u32)>,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: HashMap<LineId, Line>,
    /// The connection that each node is reached by, up or under way.
    names: HashMap<Box<str>, LineId>,
    last: u32,
    /// Those that may have something to send.
    pub(crate) touched: Vec<LineId>,
}

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It leaves as soon as the socket takes it.
    Written,
    /// It waits for room.
    Waits,
    /// There is no room.
    Shed,
}

impl Lines {
    /// A new connection or attempt.
    pub(crate) fn open(&mut self, now: Tick, link: Option<Link>, is_caller: bool) -> LineId {
        self.last += 1;
        let id = LineId(self.last);
        let line = Line {
            link,
            out: Outbox::default(),
            peer: None,
            is_up: false,
            address: None,
            is_caller,
            began: now,
            heard: now,
            said: now,
            stalled: None,
            waiting: VecDeque::new(),
            waiting_targets: 0,
            waiting_bytes: 0,
        };
        self.lines.insert(id, line);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn get(&self, id: LineId) -> Option<&Line> {
        self.lines.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: LineId) -> Option<&mut Line> {
        self.lines.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LineId, &Line)> {
        self.lines.iter().map(|(&id, line)| (id, line))
    }

    /// The connection that a node is reached by.
    pub(crate) fn find(&self, name: &str) -> Option<LineId> {
        self.names.get(name).copied()
    }

    /// From now on the node is reached by this connection.
    pub(crate) fn name(&mut self, name: &str, id: LineId) {
        self.names.insert(name.into(), id);
    }

    /// Forgets a connection.
    pub(crate) fn close(&mut self, id: LineId) -> Option<Line> {
        let line = self.lines.remove(&id)?;
        self.names.retain(|_, named| *named != id);
        Some(line)
    }

    /// Whether a node has so much to take already that it must not be given long answers.
    pub(crate) fn is_behind(&self, id: LineId) -> bool {
        self.lines
            .get(&id)
            .is_none_or(|line| line.out.len() >= ANSWERS_BYTES_MAX)
    }

    /// Sends a control message.
    pub(crate) fn control(&mut self, id: LineId, control: impl FnOnce(&mut Vec<u8>)) {
        if let Some(line) = self.touch(id) {
            line.out.control(control);
        }
    }

    /// Sends a message.
    pub(crate) fn message(
        &mut self,
        id: LineId,
        control: impl FnOnce(&mut Vec<u8>),
        payload: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(line) = self.touch(id) {
            line.out.message(control, payload);
        }
    }

    /// Sends an event's message to a process of the node, now or when there is room.
    pub(crate) fn deliver(&mut self, id: LineId, pid: (u32, u32), message: &Rc<[u8]>) -> Taken {
        let Some(line) = self.touch(id).filter(|line| line.is_up) else {
            return Taken::Shed;
        };
        if line.waiting.is_empty() && line.out.len() < OWED_BYTES_MAX {
            line.write(pid, message);
            return Taken::Written;
        }
        if line.waiting_targets >= WAITING_MAX {
            return Taken::Shed;
        }
        match line.waiting.back_mut() {
            Some(last) if Rc::ptr_eq(&last.message, message) => last.pids.push_back(pid),
            _ if line.waiting_bytes + message.len() > WAITING_BYTES_MAX => return Taken::Shed,
            _ => {
                line.waiting_bytes += message.len();
                line.waiting.push_back(Waiting {
                    message: Rc::clone(message),
                    pids: [pid].into(),
                });
            }
        }
        line.waiting_targets += 1;
        Taken::Waits
    }

    /// The line, noted as one that may have something to send.
    pub(crate) fn touch(&mut self, id: LineId) -> Option<&mut Line> {
        let line = self.lines.get_mut(&id)?;
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
        Some(line)
    }
}

impl Line {
    /// Writes deliveries that waited, as far as there is room.
    pub(crate) fn pump(&mut self) {
        while self.out.len() < OWED_BYTES_MAX {
            let Some(first) = self.waiting.front_mut() else {
                return;
            };
            let message = Rc::clone(&first.message);
            match first.pids.pop_front() {
                Some(pid) => {
                    self.waiting_targets -= 1;
                    self.write(pid, &message);
                }
                None => {
                    self.waiting_bytes -= message.len();
                    self.waiting.pop_front();
                }
            }
        }
    }

    fn write(&mut self, (id, serial): (u32, u32), message: &[u8]) {
        let Some(node) = &self.peer else { return };
        self.out.message(
            |out| crate::control::send(out, |out| node.write_pid(out, id, serial)),
            |out| out.extend(message),
        );
    }
}

impl Remote {
    /// A process of the node.
    pub(crate) fn write_pid(&self, out: &mut Vec<u8>, id: u32, serial: u32) {
        use crate::term::{Atom, write};
        write::pid(out, Atom::of(&self.name), id, serial, self.creation);
    }
}
