//! Stage 4: bytes from one side to the other.
//!
//! What is received is sent at once, from a block that the whole worker shares. Only what a full taker
//! leaves is kept, and then its giver is read no further: so a slow side slows the other down and
//! nothing grows.

use std::mem;

use reactor::{Received, Relay, Sent, Signal, SlotKey, Tick};

use crate::tcp::closing::CloseReason;
use crate::tcp::limits::{BULK_STREAK, MOVES_PER_TURN};
use crate::tcp::names::{Side, Watched};
use crate::tcp::pair::{Direction, Flow, FlowState, Held, Pair, Phase, Tenths};
use crate::tcp::splice::Pipes;
use crate::tcp::stats::{Metric, WorkerStats};
use crate::tcp::worker::Worker;

/// What one move came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    /// The taker has so many bytes more, and there may be others.
    On(usize),
    /// The taker has so many bytes more, and there are no others: a signal will tell.
    Last(usize),
    /// Nothing to move: a signal will tell.
    Nothing,
    /// The taker has so many bytes more and is full.
    Full(usize),
    /// The direction is over.
    Over,
    /// The taker broke.
    TakerBroke,
    /// The giver broke, and the taker has all that came before.
    GiverBroke,
}

impl<D: Relay> Worker<D> {
    pub(crate) fn on_signal(&mut self, key: SlotKey, side: Side, signal: Signal) {
        let Some(pair) = self.pair(key) else {
            return;
        };
        let (from, to) = (Direction::from(side), Direction::to(side));
        pair.flow(from).ended |= signal.ended;
        match (pair.phase, side) {
            (Phase::Closed, _) => return,
            (Phase::Greeting, _) => return self.greet(key),
            (Phase::Connecting, Side::Client) => {
                pair.up.unread |= signal.readable;
                return;
            }
            (Phase::Connecting, Side::Backend) => {
                if !self.on_connected(key) {
                    return;
                }
            }
            (Phase::Open, _) => {
                let over = matches!(pair.flow(from).state, FlowState::Done | FlowState::Broken);
                if signal.writable && pair.flow(to).held.is_some() {
                    self.pump(key, to);
                }
                if over && signal.ended {
                    return self.look_for_reset(key, side);
                }
            }
        }
        if signal.readable {
            self.pump(key, from);
        }
    }

    /// Moves what can be moved in one direction, as far as one turn allows.
    pub(crate) fn pump(&mut self, key: SlotKey, direction: Direction) {
        let mut block = mem::take(&mut self.block);
        let more = (0..MOVES_PER_TURN).all(|_| self.move_once(key, direction, &mut block));
        self.block = block;
        if more {
            self.unread.push((key, direction));
        }
    }

    /// Returns whether there may be more to move.
    fn move_once(&mut self, key: SlotKey, direction: Direction, block: &mut [u8]) -> bool {
        let Some(pair) = self.pairs.get_mut(key) else {
            return false;
        };
        if pair.phase != Phase::Open {
            return false;
        }
        let mut hands = Hands {
            driver: &mut self.driver,
            pipes: &mut self.pipes,
            stats: &self.stats,
            now: self.now,
            block,
        };
        let moved = hands.move_once(pair, direction);
        if let Move::On(count) | Move::Last(count) | Move::Full(count) = moved
            && count > 0
        {
            pair.moved = Tenths::of(self.now);
            pair.count(direction, count as u64);
            let metric = match direction {
                Direction::Up => Metric::BytesUp,
                Direction::Down => Metric::BytesDown,
            };
            self.stats.add(metric, count as u64);
            if pair.front.settings.request_latency {
                self.latency.moved(pair, direction, || self.driver.micros());
            }
        }
        match moved {
            Move::On(_) => return true,
            Move::Last(_) | Move::Nothing => {}
            Move::Full(_) => self.watch_writable(key, direction.taker()),
            Move::Over => self.look_for_end(key),
            Move::TakerBroke => self.on_taker_broke(key, direction),
            Move::GiverBroke => self.on_giver_broke(key, direction),
        }
        false
    }

    /// A backend's room is watched from the first. So is a client's once it was full.
    fn watch_writable(&mut self, key: SlotKey, side: Side) {
        let Some(pair) = self.pairs.get_mut(key) else {
            return;
        };
        if side == Side::Client && !mem::replace(&mut pair.room_watched, true) {
            let token = Watched::Pair(key, side).token();
            self.stats.add(Metric::Watches, 1);
            if self.driver.watch_writable(&pair.client, token).is_err() {
                self.close(key, CloseReason::Reset);
            }
        }
    }
}

/// What one move works with.
struct Hands<'a, D: Relay> {
    driver: &'a mut D,
    pipes: &'a mut Pipes<D::Pipe>,
    stats: &'a WorkerStats,
    now: Tick,
    block: &'a mut [u8],
}

impl<D: Relay> Hands<'_, D> {
    fn move_once(&mut self, pair: &mut Pair<D::Socket, D::Pipe>, direction: Direction) -> Move {
        let Some((giver, taker, flow)) = pair.ends(direction) else {
            return Move::Nothing;
        };
        if let Some(moved) = self.pour(taker, flow) {
            return moved;
        }
        match flow.state {
            FlowState::Open if flow.streak >= BULK_STREAK => self.fill(giver, flow),
            FlowState::Open => self.copy(giver, taker, flow),
            FlowState::Ended => {
                self.release(flow);
                self.stats.add(Metric::Shutdowns, 1);
                self.driver.end(taker);
                flow.state = FlowState::Done;
                Move::Over
            }
            FlowState::Reset => {
                self.release(flow);
                Move::GiverBroke
            }
            FlowState::Done | FlowState::Broken => Move::Nothing,
        }
    }

    /// Receives a block and sends it.
    fn copy(&mut self, giver: &D::Socket, taker: &D::Socket, flow: &mut Flow<D::Pipe>) -> Move {
        self.stats.add(Metric::Receives, 1);
        let count = match self.driver.recv(giver, self.block) {
            Received::Bytes(count) => count,
            Received::Blocked => return Move::Nothing,
            Received::Ended => return Self::ended(flow, FlowState::Ended),
            Received::Failed(_) => return Self::ended(flow, FlowState::Reset),
        };
        self.stats.add(Metric::BytesRead, count as u64);
        let is_full = count == self.block.len();
        flow.streak = if is_full { flow.streak + 1 } else { 0 };
        self.stats.add(Metric::Sends, 1);
        let bytes = &self.block[..count];
        let sent = match self.driver.send(taker, &[bytes]) {
            Sent::Bytes(sent) => sent,
            Sent::Blocked => 0,
            Sent::Failed(_) => return Move::TakerBroke,
        };
        if sent < count {
            flow.held = Some(Box::new(Held::Bytes(bytes[sent..].to_vec(), 0)));
            return Move::Full(sent);
        }
        // A short read has emptied the socket, unless its end is announced.
        if is_full || flow.ended {
            Move::On(sent)
        } else {
            Move::Last(sent)
        }
    }

    /// Fills a pipe.
    fn fill(&mut self, giver: &D::Socket, flow: &mut Flow<D::Pipe>) -> Move {
        if flow.held.is_none() {
            let Some(pipe) = self.pipes.lend(self.driver, self.stats) else {
                // As good without, but for the copying.
                flow.streak = 0;
                return Move::On(0);
            };
            flow.held = Some(Box::new(Held::Pipe(pipe, 0)));
        }
        let Some(Held::Pipe(pipe, within)) = flow.held.as_deref_mut() else {
            unreachable!("bytes that are held are poured before more are received");
        };
        self.stats.add(Metric::Splices, 1);
        match self.driver.fill(pipe, giver) {
            Received::Bytes(count) => {
                self.stats.add(Metric::BytesRead, count as u64);
                *within = count;
                if count < self.block.len() {
                    flow.streak = 0;
                }
                Move::On(0)
            }
            Received::Blocked => {
                self.release(flow);
                Move::Nothing
            }
            Received::Ended => Self::ended(flow, FlowState::Ended),
            Received::Failed(_) => Self::ended(flow, FlowState::Reset),
        }
    }

    /// Gives the taker what is held for it; `None` when nothing is.
    fn pour(&mut self, taker: &D::Socket, flow: &mut Flow<D::Pipe>) -> Option<Move> {
        let (sent, left) = match flow.held.as_deref_mut()? {
            Held::Pipe(_, 0) => return None,
            Held::Pipe(pipe, within) => {
                self.stats.add(Metric::Splices, 1);
                let sent = self.driver.pour(pipe, taker, *within);
                if let Sent::Bytes(count) = sent {
                    *within -= count;
                    self.stats.add(Metric::BytesSpliced, count as u64);
                }
                (sent, *within)
            }
            Held::Bytes(bytes, taken) => {
                self.stats.add(Metric::Sends, 1);
                let sent = self.driver.send(taker, &[&bytes[*taken..]]);
                if let Sent::Bytes(count) = sent {
                    *taken += count;
                }
                (sent, bytes.len() - *taken)
            }
        };
        let count = match sent {
            Sent::Bytes(count) => count,
            Sent::Blocked => return Some(Move::Full(0)),
            Sent::Failed(_) => return Some(Move::TakerBroke),
        };
        let is_bytes = matches!(flow.held.as_deref(), Some(Held::Bytes(..)));
        if left == 0 && (is_bytes || flow.streak < BULK_STREAK) {
            self.release(flow);
        }
        Some(Move::On(count))
    }

    fn ended(flow: &mut Flow<D::Pipe>, state: FlowState) -> Move {
        flow.state = state;
        Move::On(0)
    }

    /// Lets go of what is held.
    fn release(&mut self, flow: &mut Flow<D::Pipe>) {
        self.pipes.take_back(flow.held.take(), self.now, self.stats);
    }
}
