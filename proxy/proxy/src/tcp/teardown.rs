//! Stage 5: the end of a pair, orderly or not.
//!
//! A broken side is dead both ways. The other side first gets the bytes that were sent to it
//! before, and is then reset, as it would have been without a proxy. Nothing more is received from
//! it: a side that sends without pause is stopped by its full window and costs nothing.

use reactor::{RelayDriver, SlotKey, Tenths};

use crate::tcp::close_reason::CloseReason;
use crate::tcp::effect::Effect;
use crate::tcp::limits::ACKNOWLEDGED_CHECK_INTERVAL;
use crate::tcp::pair::{Direction, FlowState, Side};
use crate::tcp::pair_table::PairTable;
use crate::tcp::pipe_pool::PipePool;

/// Checks whether a side that had ended properly is broken now, which `recv` would not report.
pub(crate) fn check_reset<D: RelayDriver>(
    table: &mut PairTable<D>,
    key: SlotKey,
    side: Side,
) -> Effect {
    let broke = table.entry(key).is_some_and(|entry| {
        let socket = entry.pair.socket(side);
        socket.is_some_and(|socket| entry.driver.connected(socket).is_err())
    });
    match broke {
        true => Effect::SinkBroke(Direction::to_side(side)),
        false => Effect::Wait,
    }
}

/// Drops a direction whose sink broke. Bytes that the sink sent before are still relayed.
pub(crate) fn drop_sink<D: RelayDriver>(
    table: &mut PairTable<D>,
    pipes: &mut PipePool<D::Pipe>,
    key: SlotKey,
    direction: Direction,
) -> Effect {
    break_flow(table, pipes, key, direction);
    Effect::CheckEnd
}

/// Ends a direction whose source broke, after all of its bytes were sent, and drops the other one.
pub(crate) fn drop_source<D: RelayDriver>(
    table: &mut PairTable<D>,
    pipes: &mut PipePool<D::Pipe>,
    key: SlotKey,
    direction: Direction,
) -> Effect {
    if let Some(pair) = table.get(key) {
        pair.flow(direction).state = FlowState::Done;
    }
    break_flow(table, pipes, key, direction.opposite());
    Effect::CheckEnd
}

fn break_flow<D: RelayDriver>(
    table: &mut PairTable<D>,
    pipes: &mut PipePool<D::Pipe>,
    key: SlotKey,
    direction: Direction,
) {
    if let Some(entry) = table.entry(key) {
        let flow = entry.pair.flow(direction);
        flow.state = FlowState::Broken;
        pipes.give_back(flow.pending.take(), entry.now, entry.counters);
        entry.pair.last_activity = Tenths::of(entry.now);
    }
}

/// Closes a pair if no bytes are left in either direction.
pub(crate) fn check_end<D: RelayDriver>(table: &mut PairTable<D>, key: SlotKey) -> Effect {
    use FlowState::{Broken, Done};
    let Some(pair) = table.get(key) else {
        return Effect::Wait;
    };
    let remaining = match (pair.up.state, pair.down.state) {
        (Done, Done) => return Effect::Close(CloseReason::Done),
        (Broken, Broken) => return Effect::Close(CloseReason::Reset),
        (Broken, Done) => Some(Side::Client),
        (Done, Broken) => Some(Side::Backend),
        // One side is broken, and bytes that it sent are still in the proxy.
        (Broken, _) | (_, Broken) => None,
        _ => return Effect::Wait,
    };
    if remaining.is_some_and(|side| has_acknowledged_all(table, key, side)) {
        return Effect::Close(CloseReason::Reset);
    }
    table.arm_timer(key, ACKNOWLEDGED_CHECK_INTERVAL);
    Effect::Wait
}

/// Returns whether a side has acknowledged everything that was sent to it: a reset before that
/// would destroy bytes in transit. False if the kernel cannot tell.
fn has_acknowledged_all<D: RelayDriver>(
    table: &mut PairTable<D>,
    key: SlotKey,
    side: Side,
) -> bool {
    let Some(entry) = table.entry(key) else {
        return false;
    };
    let socket = entry.pair.socket(side);
    let info = socket.and_then(|socket| entry.driver.tcp_info(socket));
    info.is_some_and(|info| info.unacknowledged == 0)
}
