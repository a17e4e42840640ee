//! Who is at the other end of a connection: called or calling, admitted, up, gone.

use std::net::SocketAddr;
use std::rc::Rc;

use router::Mailboxes;

use super::{Effect, Node, REDIAL};
use crate::handshake::Admission;
use crate::limits::LINKS_MAX;
use crate::lines::{LineId, Remote};
use crate::link::Link;
use crate::metrics::Metric;

impl<M: Mailboxes> Node<M> {
    /// A node calls. `None` turns it away, as there are too many.
    pub(crate) fn accepted(&mut self, address: SocketAddr, challenge: u32) -> Option<LineId> {
        if self.lines.len() >= LINKS_MAX {
            return None;
        }
        let line = self
            .lines
            .open(self.now, Some(Link::called(challenge)), false);
        if let Some(line) = self.lines.get_mut(line) {
            line.address = Some(address);
        }
        Some(line)
    }

    /// A call was answered, by a node that speaks the handshake up to `version`. Whether it is still wanted.
    pub(crate) fn dialed(
        &mut self,
        id: LineId,
        address: SocketAddr,
        version: u16,
        challenge: u32,
    ) -> bool {
        let Some(line) = self.lines.touch(id) else {
            return false;
        };
        let Some(remote) = line.peer.clone() else {
            return false;
        };
        line.began = self.now;
        line.heard = self.now;
        line.address = Some(address);
        let out = line.out.bytes_mut();
        let link = Link::calling(&self.desk.me, &remote.name, version, challenge, out);
        line.link = Some(link);
        true
    }

    /// Decides about a caller that has said its name.
    pub(super) fn admit(&mut self, id: LineId, link: &mut Link) {
        let name = &*link.peer().name;
        let known = self.lines.find(name).filter(|&known| known != id);
        let admission = match known.and_then(|known| Some((known, self.lines.get(known)?))) {
            None => Admission::Ok,
            Some((_, other)) if other.is_up => Admission::Alive,
            // Both call: of two calls that of the greater name is kept, as all nodes agree.
            Some((_, other)) if other.is_caller && self.desk.me.name.as_str() > name => {
                Admission::Nok
            }
            Some((other, line)) => {
                let is_simultaneous = line.is_caller;
                self.desk.move_all(other, id);
                self.close(other);
                if is_simultaneous {
                    Admission::Simultaneous
                } else {
                    Admission::Ok
                }
            }
        };
        if matches!(admission, Admission::Ok | Admission::Simultaneous) {
            self.lines.name(name, id);
        }
        let Some(line) = self.lines.touch(id) else {
            return;
        };
        let admitted = link.admit(&self.desk.me, admission, line.out.bytes_mut());
        if let Err(refusal) = admitted {
            if admission != Admission::Nok {
                self.refuse(id, link, refusal);
            }
            self.close(id);
        }
    }

    pub(super) fn on_up(&mut self, id: LineId, link: &Link) {
        let peer = link.peer();
        // The peer has said that the earlier one is dead.
        if let Some(earlier) = self.lines.find(&peer.name)
            && earlier != id
        {
            self.close(earlier);
        }
        self.lines.name(&peer.name, id);
        let Some(line) = self.lines.touch(id) else {
            return;
        };
        let before = line.peer.replace(Rc::new(Remote {
            name: peer.name.clone(),
            creation: peer.creation,
            has_alias: peer.flags.has_alias(),
        }));
        line.is_up = true;
        line.out.set_header(peer.flags.has_fragments());
        self.metrics.add(Metric::Nodes, 1);
        tracing::info!("connected with the Erlang node {}", peer.name);
        if let Some(wanted) = self
            .wanted
            .iter_mut()
            .find(|w| w.name.as_str() == &*peer.name)
        {
            wanted.delay = REDIAL.0;
        }
        if before.is_some_and(|before| before.creation != 0 && before.creation != peer.creation) {
            self.desk.end_all(id);
        }
        self.desk.monitor_all(&mut self.lines, id);
    }

    /// A connection has ended, or a call was not answered.
    pub(crate) fn ended(&mut self, id: LineId) {
        self.close(id);
    }

    /// Forgets a connection, and closes it when what it is owed is sent.
    pub(crate) fn close(&mut self, id: LineId) {
        let Some(line) = self.lines.close(id) else {
            return;
        };
        if line.is_up {
            self.metrics.take(Metric::Nodes, 1);
        }
        if let Some(remote) = &line.peer {
            if line.is_up {
                tracing::info!("the Erlang node {} is gone", remote.name);
            }
            if let Some(wanted) = self
                .wanted
                .iter_mut()
                .find(|w| w.name.as_str() == &*remote.name)
            {
                wanted.next = self.now.after(wanted.delay);
                wanted.delay = (wanted.delay * 2).min(REDIAL.1);
            }
        }
        if self.desk.sessions.len() > 0 {
            self.sweep_at = Some(0);
        }
        self.effects
            .push(Effect::Close(id, line.out.unsent().to_vec()));
    }
}
