//! What simulations see of a table.

use reactor::Driver;

use super::ConnectionTable;

impl<D: Driver> ConnectionTable<D> {
    /// Returns the memory of all buffers, counted one by one.
    pub(crate) fn count_buffer_bytes(&self) -> usize {
        let (mut full, mut tls_input) = (0, 0);
        for slot in 0..self.slots() {
            let blocked = self.at(slot).filter(|(_, connection)| connection.blocked);
            full += usize::from(blocked.is_some());
            tls_input += self.tls_input_bytes_of(slot);
        }
        self.backlogs.count_memory_bytes() + full * self.limits.full_socket_bytes + tls_input
    }

    /// Returns whether no side table keeps anything.
    pub(crate) fn is_without_extras(&self) -> bool {
        self.tls.is_empty() && self.clients.is_empty()
    }

    /// Returns whether nothing is kept for TLS.
    #[cfg(test)]
    pub(crate) fn is_without_tls(&self) -> bool {
        self.tls.is_empty()
    }
}
