//! Stage 1: limits on the connections of a listener and of a source.

use std::net::SocketAddr;
use std::sync::Arc;

use reactor::{RelayDriver, SlotKey, Source};

use crate::tcp::close_reason::CloseReason;
use crate::tcp::effect::Effect;
use crate::tcp::frontend::Frontend;
use crate::tcp::metrics::Metric;
use crate::tcp::pair_table::PairTable;

/// Adds a pair for an accepted client. Returns `None` if the listener has reached its limit: the
/// client is closed then.
pub(crate) fn admit<D: RelayDriver>(
    table: &mut PairTable<D>,
    frontend: &Arc<Frontend>,
    client: D::Socket,
    peer: SocketAddr,
) -> Option<(SlotKey, Effect)> {
    table.counters.add(Metric::Accepted, 1);
    let settings = &frontend.settings;
    if !frontend.counts.enter(settings.max_connections) {
        // Dropping the socket closes it.
        table.counters.add(Metric::Closes, 1);
        table.counters.add(Metric::RefusedListener, 1);
        return None;
    }
    let (key, watched) = table.insert(frontend, client, peer);
    let effect = match (watched, settings.proxy_in) {
        // The kernel has no memory for another watch: treated like a lack of descriptors.
        (Err(error), _) => Effect::Exhausted(error),
        (Ok(()), Some(timeout)) => {
            table.arm_timer(key, timeout);
            Effect::Wait
        }
        (Ok(()), None) => Effect::CountSource,
    };
    Some((key, effect))
}

/// Counts a pair against the limit of its source, if there is one, and then lets it connect.
pub(crate) fn count_source<D: RelayDriver>(table: &mut PairTable<D>, key: SlotKey) -> Effect {
    let Some(entry) = table.entry(key) else {
        return Effect::Wait;
    };
    let frontend = &entry.pair.frontend;
    if let (Some(limit), Some(info)) = (
        frontend.settings.max_connections_per_source,
        entry.pair.client_info.as_deref_mut(),
    ) {
        let source = Source::from(info.source.ip());
        info.counted = frontend.counts.sources.enter(source, limit);
        if !info.counted {
            entry.counters.add(Metric::RefusedSource, 1);
            return Effect::Close(CloseReason::Refused);
        }
    }
    Effect::Connect
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::rc::Rc;

    use simulated::SimDriver;
    use simulated::network::{Peer, connected_client, network};

    use super::*;
    use crate::tcp::metrics::WorkerCounters;
    use crate::tcp::settings::ListenerSettings;
    use crate::tcp::sim::settings;

    fn frontend(change: impl FnOnce(&mut ListenerSettings)) -> Arc<Frontend> {
        let mut settings = settings(1);
        change(&mut settings);
        Arc::new(Frontend::new(settings.listen, settings, None))
    }

    fn table() -> PairTable<SimDriver> {
        let network = network(usize::MAX);
        PairTable::new(SimDriver(network), Arc::new(WorkerCounters::default()))
    }

    /// Admits a client, and counts it against the limit of its source.
    fn enter(
        table: &mut PairTable<SimDriver>,
        frontend: &Arc<Frontend>,
        source: &str,
    ) -> Option<Effect> {
        let source: IpAddr = source.parse().expect("an address");
        let network = Rc::clone(&table.driver.0);
        let (_, client) = connected_client(&network, Peer::with(1, 1));
        let (key, effect) = admit(table, frontend, client, (source, 1000).into())?;
        assert!(matches!(effect, Effect::CountSource));
        Some(count_source(table, key))
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
        let frontend = frontend(|settings| settings.max_connections_per_source = Some(2));
        let mut table = table();
        for (source, admitted) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.1", false),
            ("192.0.2.2", true),
            ("2001:db8:1:2::1", true),
            ("2001:db8:1:2:ffff::1", true),
            ("2001:db8:1:2::2", false),
            ("2001:db8:1:3::1", true),
        ] {
            let effect = enter(&mut table, &frontend, source).expect("no limit of the listener");
            match admitted {
                true => assert!(matches!(effect, Effect::Connect), "{source}"),
                false => assert!(
                    matches!(effect, Effect::Close(CloseReason::Refused)),
                    "{source}"
                ),
            }
        }
        assert_eq!(table.counters.get(Metric::RefusedSource), 2);
    }

    #[test]
    fn a_client_beyond_the_limit_of_its_listener_is_closed_at_once() {
        let frontend = frontend(|settings| settings.max_connections = Some(1));
        let mut table = table();
        assert!(enter(&mut table, &frontend, "192.0.2.1").is_some());
        assert!(enter(&mut table, &frontend, "192.0.2.2").is_none());
        let network = Rc::clone(&table.driver.0);
        let closed: Vec<bool> = network
            .borrow()
            .peers
            .iter()
            .map(|peer| peer.closed)
            .collect();
        assert_eq!(closed, [false, true]);
        assert_eq!(table.counters.get(Metric::Connections), 1);
    }
}
