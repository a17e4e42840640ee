//! Stage 4: bytes from one side to the other.
//!
//! What is received is sent at once, from a block that the whole worker shares. Only what a full
//! sink leaves is kept, and then its source is received from no further: a slow side slows the
//! other one down, and nothing grows.

use reactor::{Received, RelayDriver, Sent, SlotKey, Tenths, Tick};

use crate::tcp::close_reason::CloseReason;
use crate::tcp::effect::Effect;
use crate::tcp::latency::LatencyRecorder;
use crate::tcp::limits::{BULK_BLOCKS, MOVES_PER_TURN};
use crate::tcp::metrics::{Metric, WorkerCounters};
use crate::tcp::pair::{Direction, Flow, FlowState, Pending};
use crate::tcp::pair_table::{Entry, PairOf};
use crate::tcp::pipe_pool::PipePool;

/// Memory and pipes that the transfers of one worker share.
#[derive(Debug)]
pub(crate) struct TransferBuffers<P> {
    pub(crate) block: Box<[u8]>,
    pub(crate) pipes: PipePool<P>,
}

/// Result of one move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// The sink took so many bytes, and there may be more to move.
    More(usize),
    /// The sink took so many bytes, and the source is empty: a signal will tell of more.
    Last(usize),
    /// There was nothing to move: a signal will tell.
    Nothing,
    /// The sink took so many bytes and is full.
    Full(usize),
    /// The source has ended, and the sink was told.
    Ended,
    /// The sink broke.
    SinkBroke,
    /// The source broke, and the sink has been sent everything that came before.
    SourceBroke,
}

impl<P> TransferBuffers<P> {
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self {
            block: vec![0; block_bytes].into_boxed_slice(),
            pipes: PipePool::default(),
        }
    }

    /// Moves what can be moved in one direction, as far as the budget of one turn allows.
    pub(crate) fn transfer<D: RelayDriver<Pipe = P>>(
        &mut self,
        mut entry: Entry<'_, D>,
        key: SlotKey,
        direction: Direction,
        latency: &mut LatencyRecorder,
    ) -> Effect {
        for _ in 0..MOVES_PER_TURN {
            let moved = TransferContext {
                driver: entry.driver,
                counters: entry.counters,
                buffers: self,
                now: entry.now,
            }
            .move_once(entry.pair, direction);
            if let Moved::More(count) | Moved::Last(count) | Moved::Full(count) = moved
                && count > 0
            {
                account(&mut entry, direction, count, latency);
            }
            match moved {
                Moved::More(_) => {}
                Moved::Last(_) | Moved::Nothing => {
                    // From here on, only a signal can tell of more.
                    if entry.pause_input(key, direction, false).is_err() {
                        return Effect::Close(CloseReason::Reset);
                    }
                    return Effect::Wait;
                }
                Moved::Full(_) => {
                    entry.pair.flow(direction).sink_full = true;
                    if direction == Direction::Down && entry.watch_client_writable(key).is_err() {
                        return Effect::Close(CloseReason::Reset);
                    }
                    return Effect::Wait;
                }
                Moved::Ended => return Effect::CheckEnd,
                Moved::SinkBroke => return Effect::SinkBroke(direction),
                Moved::SourceBroke => return Effect::SourceBroke(direction),
            }
        }
        Effect::Resume(direction)
    }
}

/// Records that the sink of a direction took bytes.
fn account<D: RelayDriver>(
    entry: &mut Entry<'_, D>,
    direction: Direction,
    count: usize,
    latency: &mut LatencyRecorder,
) {
    let pair = &mut *entry.pair;
    pair.last_activity = Tenths::of(entry.now);
    pair.count(direction, count as u64);
    let metric = match direction {
        Direction::Up => Metric::BytesUp,
        Direction::Down => Metric::BytesDown,
    };
    entry.counters.add(metric, count as u64);
    if pair.frontend.settings.request_latency {
        latency.record(pair, direction, || entry.driver.micros());
    }
}

/// What one move works with.
struct TransferContext<'a, D: RelayDriver> {
    driver: &'a mut D,
    counters: &'a WorkerCounters,
    buffers: &'a mut TransferBuffers<D::Pipe>,
    now: Tick,
}

impl<D: RelayDriver> TransferContext<'_, D> {
    fn move_once(&mut self, pair: &mut PairOf<D>, direction: Direction) -> Moved {
        let Some((source, sink, flow)) = pair.ends(direction) else {
            return Moved::Nothing;
        };
        if let Some(moved) = self.drain(sink, flow) {
            return moved;
        }
        match flow.state {
            FlowState::Open if flow.full_blocks >= BULK_BLOCKS => self.fill(source, flow),
            FlowState::Open => self.copy(source, sink, flow),
            FlowState::SourceEnded => {
                self.release(flow);
                self.counters.add(Metric::Shutdowns, 1);
                self.driver.shutdown_write(sink);
                flow.state = FlowState::Done;
                Moved::Ended
            }
            FlowState::SourceReset => {
                self.release(flow);
                Moved::SourceBroke
            }
            FlowState::Done | FlowState::Broken => Moved::Nothing,
        }
    }

    /// Receives a block and sends it.
    fn copy(&mut self, source: &D::Socket, sink: &D::Socket, flow: &mut Flow<D::Pipe>) -> Moved {
        let block = &mut self.buffers.block;
        self.counters.add(Metric::Receives, 1);
        let count = match self.driver.recv(source, block) {
            Received::Bytes(count) => count,
            Received::Blocked => return Moved::Nothing,
            Received::Ended => return Self::source_is_over(flow, FlowState::SourceEnded),
            Received::Failed(_) => return Self::source_is_over(flow, FlowState::SourceReset),
        };
        self.counters.add(Metric::BytesRead, count as u64);
        let is_full = count == block.len();
        flow.full_blocks = if is_full { flow.full_blocks + 1 } else { 0 };
        self.counters.add(Metric::Sends, 1);
        let bytes = &block[..count];
        let sent = match self.driver.send(sink, &[bytes]) {
            Sent::Bytes(sent) => sent,
            Sent::Blocked => 0,
            Sent::Failed(_) => return Moved::SinkBroke,
        };
        if sent < count {
            flow.pending = Some(Box::new(Pending::Bytes(bytes[sent..].to_vec(), 0)));
            return Moved::Full(sent);
        }
        // A short read has emptied the socket, unless the source's end was announced.
        if is_full || flow.end_announced {
            Moved::More(sent)
        } else {
            Moved::Last(sent)
        }
    }

    /// Fills a pipe.
    fn fill(&mut self, source: &D::Socket, flow: &mut Flow<D::Pipe>) -> Moved {
        if flow.pending.is_none() {
            let Some(pipe) = self.buffers.pipes.lend(self.driver, self.counters) else {
                // Copying works as well, and only costs more.
                flow.full_blocks = 0;
                return Moved::More(0);
            };
            flow.pending = Some(Box::new(Pending::Pipe(pipe, 0)));
        }
        let Some(Pending::Pipe(pipe, within)) = flow.pending.as_deref_mut() else {
            unreachable!("pending bytes are sent before more are received");
        };
        self.counters.add(Metric::Splices, 1);
        match self.driver.fill(pipe, source) {
            Received::Bytes(count) => {
                self.counters.add(Metric::BytesRead, count as u64);
                *within = count;
                if count < self.buffers.block.len() {
                    flow.full_blocks = 0;
                }
                Moved::More(0)
            }
            Received::Blocked => {
                self.release(flow);
                Moved::Nothing
            }
            Received::Ended => Self::source_is_over(flow, FlowState::SourceEnded),
            Received::Failed(_) => Self::source_is_over(flow, FlowState::SourceReset),
        }
    }

    /// Sends pending bytes; returns `None` if there are none.
    fn drain(&mut self, sink: &D::Socket, flow: &mut Flow<D::Pipe>) -> Option<Moved> {
        let (sent, left) = match flow.pending.as_deref_mut()? {
            Pending::Pipe(_, 0) => return None,
            Pending::Pipe(pipe, within) => {
                self.counters.add(Metric::Splices, 1);
                let sent = self.driver.pour(pipe, sink, *within);
                if let Sent::Bytes(count) = sent {
                    *within -= count;
                    self.counters.add(Metric::BytesSpliced, count as u64);
                }
                (sent, *within)
            }
            Pending::Bytes(bytes, taken) => {
                self.counters.add(Metric::Sends, 1);
                let sent = self.driver.send(sink, &[&bytes[*taken..]]);
                if let Sent::Bytes(count) = sent {
                    *taken += count;
                }
                (sent, bytes.len() - *taken)
            }
        };
        let count = match sent {
            Sent::Bytes(count) => count,
            Sent::Blocked => return Some(Moved::Full(0)),
            Sent::Failed(_) => return Some(Moved::SinkBroke),
        };
        let is_bytes = matches!(flow.pending.as_deref(), Some(Pending::Bytes(..)));
        if left > 0 {
            return Some(Moved::Full(count));
        }
        if is_bytes || flow.full_blocks < BULK_BLOCKS {
            self.release(flow);
        }
        Some(Moved::More(count))
    }

    fn source_is_over(flow: &mut Flow<D::Pipe>, state: FlowState) -> Moved {
        flow.state = state;
        Moved::More(0)
    }

    /// Gives back what the direction held.
    fn release(&mut self, flow: &mut Flow<D::Pipe>) {
        let pending = flow.pending.take();
        self.buffers
            .pipes
            .give_back(pending, self.now, self.counters);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::rc::Rc;
    use std::sync::Arc;

    use simulated::SimDriver;
    use simulated::network::{Peer, connected_client, network};

    use super::*;
    use crate::tcp::frontend::Frontend;
    use crate::tcp::pair::Phase;
    use crate::tcp::pair_table::PairTable;
    use crate::tcp::sim::settings;

    /// Needs no worker: a table with a pair is enough.
    #[test]
    fn a_full_client_is_watched_once_and_its_backend_received_from_no_further() {
        let network = network(usize::MAX);
        let driver = SimDriver(Rc::clone(&network));
        let mut table = PairTable::new(driver, Arc::new(WorkerCounters::default()));
        let (client, client_socket) = connected_client(&network, Peer::with(10, usize::MAX));
        let (server, server_socket) = connected_client(&network, Peer::with(0, 0));
        let settings = settings(1);
        let frontend = Arc::new(Frontend::new(settings.listen, settings, None));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1000));
        let (key, watched) = table.insert(&frontend, client_socket, peer);
        watched.expect("the simulated poller has room");
        let pair = table.get(key).expect("just added");
        (pair.server, pair.phase) = (Some(server_socket), Phase::Open);

        const BLOCK_BYTES: usize = 64;
        let mut buffers = TransferBuffers::new(BLOCK_BYTES);
        let mut latency = LatencyRecorder::default();
        let mut transfer = || {
            let entry = table.entry(key).expect("it is open");
            buffers.transfer(entry, key, Direction::Down, &mut latency)
        };
        network.borrow_mut().say(server, &[7; 1_000]);
        for _ in 0..3 {
            assert!(matches!(transfer(), Effect::Wait));
        }
        assert_eq!(network.borrow().peers[client].outbound.len(), 10);
        assert_eq!(
            network.borrow().peers[server].inbound.len(),
            1_000 - BLOCK_BYTES
        );
        network.borrow_mut().make_room(client, usize::MAX);
        while let Effect::Resume(direction) = transfer() {
            assert_eq!(direction, Direction::Down);
        }
        assert_eq!(network.borrow().peers[client].outbound, [7; 1_000]);
        // The client's socket, when it was added and when it was full.
        assert_eq!(table.counters.get(Metric::Watches), 2);
        assert_eq!(table.get(key).expect("it is open").bytes_down, 1_000);
    }
}
