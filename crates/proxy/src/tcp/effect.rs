//! What a stage asks of the worker. No stage knows another one: the worker applies what they
//! return.

use std::io;

use crate::tcp::close::CloseReason;
use crate::tcp::pair::Direction;

/// The next step of a pair.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Nothing before the next signal or deadline.
    Wait,
    /// Count the pair against the limit of its source: the client's address is known.
    CountSource,
    /// Connect to a backend that was not tried yet.
    Connect,
    /// Go on moving bytes in the next turn: the budget of this one is spent, and no signal will
    /// tell.
    Resume(Direction),
    /// Close the pair if nothing is left to be carried: a direction is done.
    CheckEnd,
    /// Drop the direction: its source broke, and its sink has been sent everything.
    SourceBroke(Direction),
    /// Drop the direction: its sink broke.
    SinkBroke(Direction),
    /// Close the pair.
    Close(CloseReason),
    /// Close the pair and pause accepting: the process has no descriptor or memory left.
    Exhausted(io::Error),
}
