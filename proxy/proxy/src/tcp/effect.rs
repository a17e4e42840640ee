//! Next steps that a stage requests from the worker. Stages do not call each other: they return an
//! effect, and the worker applies it.

use std::io;

use crate::tcp::close_reason::CloseReason;
use crate::tcp::pair::Direction;

/// Next step of a pair.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Do nothing until the next signal or deadline.
    Wait,
    /// Count the pair against the limit of its source, whose address is known now.
    CountSource,
    /// Connect to a backend that has not been tried yet.
    Connect,
    /// End an attempt to connect that failed with this error, and begin another one.
    ConnectFailed(io::Error),
    /// Continue the transfer in the next turn: the budget of this turn is spent, and no signal will
    /// announce the bytes that are left.
    Resume(Direction),
    /// Close the pair if no bytes are left in either direction: one direction is done.
    CheckEnd,
    /// Drop the direction: its source broke, and all bytes received before were sent to its sink.
    SourceBroke(Direction),
    /// Drop the direction: its sink broke.
    SinkBroke(Direction),
    /// Close the pair.
    Close(CloseReason),
    /// Close the pair and pause accepting: the process is out of descriptors or memory.
    Exhausted(io::Error),
}
