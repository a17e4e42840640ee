//! What is due by the clock: signs of life, deadlines, calls, sessions of nodes that are gone.

use std::rc::Rc;
use std::time::Duration;

use router::Mailboxes;

use super::{Effect, Node};
use crate::limits::{HANDSHAKE_TIME, LOOK_AGAIN, STALL_TIME, SWEPT_PER_TURN};
use crate::lines::{LineId, Remote};
use crate::refusal::Refusal;

/// Signs of life sent in the time after which a silent peer is gone, as in Erlang.
const TICKS: u32 = 4;

impl<M: Mailboxes> Node<M> {
    /// Does what is due: signs of life, deadlines, calls, sessions of nodes that are gone.
    pub(crate) fn meet_deadlines(&mut self) {
        let mut over = Vec::new();
        for (id, line) in self.lines.iter() {
            let is_stalled = line
                .stalled
                .is_some_and(|since| self.now.since(since) >= STALL_TIME);
            let refusal = if !line.is_up && self.now.since(line.began) >= HANDSHAKE_TIME {
                Some(Refusal::HandshakeSlow)
            } else if line.is_up && self.now.since(line.heard) >= self.tick_time {
                Some(Refusal::Silent)
            } else if line.is_up && is_stalled {
                Some(Refusal::Slow)
            } else {
                None
            };
            let is_to_tick = line.is_up && self.now.since(line.said) >= self.tick_time / TICKS;
            if refusal.is_some() || is_to_tick {
                over.push((id, refusal));
            }
        }
        for (id, refusal) in over {
            match refusal {
                Some(refusal) => self.give_up(id, refusal),
                None => {
                    if let Some(line) = self.lines.touch(id) {
                        line.said = self.now;
                        line.out.tick();
                    }
                }
            }
        }
        self.call_wanted();
        self.sweep();
    }

    fn give_up(&mut self, id: LineId, refusal: Refusal) {
        let link = self.lines.get_mut(id).and_then(|line| line.link.take());
        if let Some(link) = link {
            self.refuse(id, &link, refusal);
        }
        self.close(id);
    }

    fn call_wanted(&mut self) {
        for wanted in &mut self.wanted {
            let name = wanted.name.as_str();
            if self.now < wanted.next || self.lines.find(name).is_some() {
                continue;
            }
            let line = self.lines.open(self.now, None, true);
            if let Some(opened) = self.lines.get_mut(line) {
                opened.peer = Some(Rc::new(Remote {
                    name: name.into(),
                    creation: 0,
                    has_alias: false,
                }));
            }
            self.lines.name(name, line);
            self.effects.push(Effect::Dial(line, wanted.name.clone()));
        }
    }

    fn sweep(&mut self) {
        if let Some(at) = self.sweep_at {
            self.sweep_at = self.desk.sweep(&self.lines, at, SWEPT_PER_TURN);
        }
    }

    /// Whether there is work that waits for nothing.
    pub(crate) fn is_busy(&self) -> bool {
        self.sweep_at.is_some() || self.desk.calls.is_settled()
    }

    /// How long there may be nothing to do.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let is_idle = self.lines.len() == 0 && self.wanted.is_empty();
        (!is_idle).then(|| (self.tick_time / (4 * TICKS)).min(LOOK_AGAIN))
    }
}
