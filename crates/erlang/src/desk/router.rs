//! `router`: `{send, Id, Msg}`, `{login, Id, Pid}`, `{logout, Pid}`.

use std::rc::Rc;

use ::router::{Event, Mailboxes, Tally};
use reactor::SlotKey;

use super::{Desk, Place, Refused, answer, answer_done, refuse};
use crate::calls::Outcome;
use crate::control;
use crate::ids;
use crate::limits::IDS_MAX;
use crate::lines::{LineId, Lines, Remote};
use crate::metrics::Metric;
use crate::name::NodeName;
use crate::payload;
use crate::sessions::Process;
use crate::term::{Atom, Pid, Raw, Term, write};

impl<M: Mailboxes> Desk<M> {
    pub(super) fn on_router(
        &mut self,
        lines: &mut Lines,
        line: LineId,
        from: Option<Raw<'_>>,
        request: Raw<'_>,
    ) {
        if let Some([verb, id, message]) = request.tuple()
            && verb.is_atom("send")
        {
            self.publish(lines, line, from, id, message);
        } else if let Some([verb, id, pid]) = request.tuple()
            && verb.is_atom("login")
        {
            let done = self.login(lines, id, pid);
            answer_done(lines, line, from, done);
        } else if let Some([verb, pid]) = request.tuple()
            && verb.is_atom("logout")
        {
            let done = self.logout(lines, pid);
            answer_done(lines, line, from, done);
        } else if request.is_atom("pid") {
            self.answer_pid(lines, line, from, Place::Router);
        } else {
            let known = "router takes {send, Id, Msg}, {login, Id, Pid}, {logout, Pid} and pid";
            refuse(lines, line, from, known);
        }
    }

    /// Publishes, and answers `{ok, N}` when all who are concerned have had their turn.
    fn publish(
        &mut self,
        lines: &mut Lines,
        line: LineId,
        from: Option<Raw<'_>>,
        id: Raw<'_>,
        message: Raw<'_>,
    ) {
        let event = match self.event(id, message) {
            Ok(event) => event,
            Err(sentence) => return refuse(lines, line, from, &sentence),
        };
        let Some(caller) = from else {
            self.router.publish(event, &self.unawaited);
            return;
        };
        if self.calls.is_full() {
            let sentence =
                "too many calls wait for their receipts; call again when some have ended";
            return refuse(lines, line, from, sentence);
        }
        let tally = Tally::new();
        self.router.publish(event, &tally);
        if let Some(counts) = self.calls.receipt(line, caller.bytes(), tally) {
            answer_sent(lines, line, caller, counts.written + counts.queued);
        }
    }

    /// Answers the calls that waited for what has happened.
    pub(crate) fn answer_settled(&mut self, lines: &mut Lines) {
        for (call, outcome) in self.calls.take_settled() {
            if let Outcome::Changes(Ok(())) = outcome {
                for (id, term) in &call.spelt {
                    self.spellings.remember(self.router.graph(), id, term);
                }
            }
            let from = call.from.as_deref();
            let Some((from, _)) = from.and_then(|from| Raw::parse(from).ok()) else {
                continue;
            };
            match outcome {
                Outcome::Receipt(counts) => {
                    answer_sent(lines, call.line, from, counts.written + counts.queued);
                }
                Outcome::Changes(done) => {
                    let done = done.map_err(|error| error.to_string());
                    answer_done(lines, call.line, Some(from), done);
                }
            }
        }
    }

    fn event(&self, id: Raw<'_>, message: Raw<'_>) -> Result<Event, Refused> {
        let subject = ids::of_term(id).map_err(|error| error.to_string())?;
        let payload = payload::of_term(message, self.event_bytes_max).map_err(|_| {
            format!(
                "the message is larger than the {} bytes that an event may have; \
                 send less, or raise event-bytes",
                self.event_bytes_max
            )
        })?;
        Ok(Event {
            subject,
            event_type: None,
            payload,
        })
    }

    /// Makes a process a session of an id.
    fn login(&mut self, lines: &mut Lines, id: Raw<'_>, pid: Raw<'_>) -> Result<(), Refused> {
        let subject = ids::of_term(id).map_err(|error| error.to_string())?;
        let pid = pid.pid().ok_or("login takes {login, Id, Pid} with a pid")?;
        let line = self.line_to(lines, pid)?;
        let process = Process {
            line,
            id: pid.id,
            serial: pid.serial,
        };
        let known = self.sessions.find(process);
        if let Some(slot) = known
            && let Some(session) = self.sessions.get(slot)
        {
            if let Some(key) = self.router.graph().find(&subject)
                && session.keys().contains(&key)
            {
                return Ok(());
            }
            if session.keys().len() >= IDS_MAX {
                return Err(format!(
                    "a process may have {IDS_MAX} ids, and this one has them"
                ));
            }
        }
        // The session must be there before it is found under the key, and its key is known after.
        let key = self.router.graph().hold(&subject);
        let key = key.map_err(|error| error.to_string())?;
        let slot = match known {
            Some(slot) => {
                self.sessions.add(slot, key);
                slot
            }
            None => {
                let slot = self.sessions.insert(self.now, process, key);
                self.metrics.add(Metric::Logins, 1);
                self.metrics.add(Metric::Sessions, 1);
                self.monitor(lines, slot, process);
                slot
            }
        };
        let session = self.name(slot);
        let logged_in = self.router.login(&subject, session);
        self.router.graph().release(key);
        logged_in.map(drop).map_err(|error| error.to_string())
    }

    /// The connection to a process's node, which is called if there is none.
    fn line_to(&mut self, lines: &mut Lines, pid: Pid<'_>) -> Result<LineId, Refused> {
        let name = pid.node.text();
        if let Some(line) = lines.find(&name) {
            let creation = lines.get(line).and_then(|line| line.peer.as_ref());
            return match creation.map(|node| node.creation) {
                Some(creation) if creation == pid.creation => Ok(line),
                _ => Err(format!(
                    "the process is of an earlier life of {name}, and gone"
                )),
            };
        }
        let name: NodeName = name.parse()?;
        if name == self.me.name {
            return Err("a process of this node cannot log in".to_owned());
        }
        let line = lines.open(self.now, None, true);
        if let Some(opened) = lines.get_mut(line) {
            opened.peer = Some(Rc::new(Remote {
                name: name.as_str().into(),
                creation: pid.creation,
                has_alias: false,
            }));
        }
        lines.name(name.as_str(), line);
        self.wanted.push(line);
        Ok(line)
    }

    /// Takes all ids from a process. One that has none is logged out already.
    fn logout(&mut self, lines: &mut Lines, pid: Raw<'_>) -> Result<(), Refused> {
        let pid = pid.pid().ok_or("logout takes {logout, Pid} with a pid")?;
        let Some(line) = lines.find(&pid.node.text()) else {
            return Ok(());
        };
        let process = Process {
            line,
            id: pid.id,
            serial: pid.serial,
        };
        if let Some(slot) = self.sessions.find(process) {
            self.monitor_no_more(lines, slot, process);
            self.end(slot);
        }
        Ok(())
    }

    /// Ends a session.
    pub(super) fn end(&mut self, slot: SlotKey) {
        let name = self.name(slot);
        if let Some(session) = self.sessions.remove(slot) {
            self.metrics.take(Metric::Sessions, 1);
            for &key in session.keys() {
                self.router.logout(key, name);
            }
        }
    }

    /// Ends sessions that the operator closes.
    pub(crate) fn close(&mut self, lines: &mut Lines, recipients: &[SlotKey]) {
        for &slot in recipients {
            if let Some(process) = self.sessions.get(slot).map(|session| session.process) {
                self.monitor_no_more(lines, slot, process);
                self.end(slot);
            }
        }
    }

    /// A process has ended, or is not there.
    pub(super) fn on_down(&mut self, line: LineId, reference: Raw<'_>) {
        let Some(slot) = self.monitored(reference) else {
            return;
        };
        let is_of_line = self
            .sessions
            .get(slot)
            .is_some_and(|session| session.process.line == line);
        if is_of_line {
            self.end(slot);
        }
    }

    /// Asks to hear of a process's end.
    fn monitor(&self, lines: &mut Lines, slot: SlotKey, process: Process) {
        let Some(line) = lines.get(process.line).filter(|line| line.is_up) else {
            return;
        };
        let Some(node) = line.peer.clone() else {
            return;
        };
        lines.control(process.line, |out| {
            control::monitor(
                out,
                |out| Place::Router.write_pid(&self.me, out),
                |out| node.write_pid(out, process.id, process.serial),
                |out| self.write_reference(out, slot),
            );
        });
    }

    fn monitor_no_more(&self, lines: &mut Lines, slot: SlotKey, process: Process) {
        let Some(line) = lines.get(process.line).filter(|line| line.is_up) else {
            return;
        };
        let Some(node) = line.peer.clone() else {
            return;
        };
        lines.control(process.line, |out| {
            control::demonitor(
                out,
                |out| Place::Router.write_pid(&self.me, out),
                |out| node.write_pid(out, process.id, process.serial),
                |out| self.write_reference(out, slot),
            );
        });
    }

    /// The node of these sessions is reached by another connection.
    pub(crate) fn move_all(&mut self, from: LineId, to: LineId) {
        for index in 0..self.sessions.slots() {
            if let Some(slot) = self.sessions.at(index)
                && let Some(session) = self.sessions.get(slot)
                && session.process.line == from
            {
                self.sessions.move_to(slot, to);
            }
        }
    }

    /// Ends the sessions of a connection whose node is not the one that they were of.
    pub(crate) fn end_all(&mut self, line: LineId) {
        for index in 0..self.sessions.slots() {
            if let Some(slot) = self.sessions.at(index)
                && let Some(session) = self.sessions.get(slot)
                && session.process.line == line
            {
                self.end(slot);
            }
        }
    }

    /// Monitors the processes that logged in before their node could be reached.
    pub(crate) fn monitor_all(&mut self, lines: &mut Lines, line: LineId) {
        for index in 0..self.sessions.slots() {
            let Some(slot) = self.sessions.at(index) else {
                continue;
            };
            if let Some(process) = self.sessions.get(slot).map(|session| session.process)
                && process.line == line
            {
                self.monitor(lines, slot, process);
            }
        }
    }

    /// A monitor is named after its session. Erlang uses 18 bits of the first word.
    fn write_reference(&self, out: &mut Vec<u8>, slot: SlotKey) {
        let words = [slot.index & 0x3_ffff, slot.generation, slot.index >> 18];
        let node = Atom::of(self.me.name.as_str());
        write::reference(out, node, self.me.creation, &words);
    }

    fn monitored(&self, reference: Raw<'_>) -> Option<SlotKey> {
        let Term::Reference(reference) = reference.view() else {
            return None;
        };
        let mut words = reference.numbers();
        let (low, generation, high) = (words.next()?, words.next()?, words.next()?);
        let is_own =
            reference.node.is(self.me.name.as_str()) && reference.creation == self.me.creation;
        is_own.then_some(SlotKey {
            index: low | high << 18,
            generation,
        })
    }
}

fn answer_sent(lines: &mut Lines, line: LineId, from: Raw<'_>, reached: u64) {
    answer(lines, line, Some(from), |out| {
        write::tuple(out, 2);
        write::atom(out, "ok");
        write::integer(out, reached.cast_signed());
    });
}
