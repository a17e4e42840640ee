//! What simulations see of the input of connections.

use super::Ingress;
use super::kept::cost;
use crate::stage::Stage as _;

impl Ingress {
    /// Returns whether no input is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.slots.is_empty() && !self.has_work()
    }

    /// Returns the memory of the input that is kept, counted one by one.
    pub(crate) fn count_kept_bytes(&self) -> usize {
        self.kept.slots.values().map(cost).sum()
    }
}
