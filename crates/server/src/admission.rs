//! Admission: limits on connections, over all workers and by source address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reactor::Source;

use crate::settings::LiveSettings;
use crate::shared::Shared;
use crate::stats::Metric;

/// Counts of one worker's connections against the limits of the server.
pub(crate) struct Admission {
    shared: Arc<Shared>,
    /// Where connections come from, by slot. Kept only while sources are limited.
    sources: HashMap<u32, Source>,
}

impl Admission {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            sources: HashMap::new(),
        }
    }

    /// Counts the connection in a slot, unless a limit is reached. A refused connection lingers for
    /// a moment; it is not counted, as it would take the place of a legitimate one.
    ///
    /// # Errors
    ///
    /// The metric that counts refusals by the limit that was reached.
    pub(crate) fn admit(
        &mut self,
        live: &LiveSettings,
        index: u32,
        peer: IpAddr,
    ) -> Result<(), Metric> {
        // A trusted proxy has the connections of many clients: these are counted one by one.
        if !live.policy.trusts(peer) {
            self.count_source(live, index, peer)?;
        }
        let connections = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        if connections >= live.max_connections {
            self.leave(index);
            return Err(Metric::RefusedServer);
        }
        Ok(())
    }

    /// Counts the client behind a connection of a trusted proxy, which begins a stream.
    ///
    /// # Errors
    ///
    /// Like [`admit`](Self::admit). The connection stays admitted.
    pub(crate) fn admit_client(
        &mut self,
        live: &LiveSettings,
        index: u32,
        client: IpAddr,
    ) -> Result<(), Metric> {
        match self.sources.contains_key(&index) {
            true => Ok(()),
            false => self.count_source(live, index, client),
        }
    }

    /// Counts an admitted connection as one of the client that its PROXY header names.
    ///
    /// # Errors
    ///
    /// Like [`admit`](Self::admit). The connection is no longer admitted.
    pub(crate) fn admit_proxied(
        &mut self,
        live: &LiveSettings,
        index: u32,
        client: IpAddr,
    ) -> Result<(), Metric> {
        // Another proxy may stand before the one that sends the header.
        if live.policy.trusts(client) {
            return Ok(());
        }
        let counted = self.count_source(live, index, client);
        if counted.is_err() {
            self.leave(index);
        }
        counted
    }

    /// Counts a connection against the limit of its source, if there is one.
    fn count_source(
        &mut self,
        live: &LiveSettings,
        index: u32,
        address: IpAddr,
    ) -> Result<(), Metric> {
        let Some(limit) = live.max_connections_per_address else {
            return Ok(());
        };
        let source = Source::from(address);
        if !self.shared.sources.enter(source, limit) {
            return Err(Metric::RefusedAddress);
        }
        self.sources.insert(index, source);
        Ok(())
    }

    /// Removes an admitted connection from the counts.
    pub(crate) fn leave(&mut self, index: u32) {
        let before = self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection leaves once");
        if let Some(source) = self.sources.remove(&index) {
            self.shared.sources.leave(source);
        }
    }
}
