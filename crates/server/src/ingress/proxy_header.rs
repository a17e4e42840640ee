//! Input of connections that begin with a PROXY header, up to its end.

use reactor::{Driver, SlotKey};
use wire::proxy_header::{self, HeaderError};

use super::{Ingress, RequestHandler};
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable};

impl Ingress {
    /// Acts on bytes that come before or with the end of a PROXY header. They filled the block if
    /// `is_full`. The parser refuses a header that is longer than it may be, so what is kept of one
    /// is bounded; the time limit is that of the first request head.
    pub(super) fn ingest_proxy_header<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        bytes: &[u8],
        is_full: bool,
        handler: &mut impl RequestHandler<D>,
    ) {
        let input = self.with_kept(key, bytes);
        match proxy_header::parse(&input) {
            Ok(None) if self.is_full && input.len() == bytes.len() => {
                handler.refuse_unread(table, key);
            }
            Ok(None) => {
                self.kept.insert(key.index, input.into_owned());
            }
            Ok(Some((header, length))) => {
                let client = header.addresses.map(|(client, _)| client);
                table.set_client(key, client);
                if let Some(client) = client {
                    handler.admit_client(table, key, client.ip());
                }
                let rest = &mut input.into_owned()[length..];
                if !rest.is_empty() {
                    self.ingest_input(table, key, rest, is_full, handler);
                }
            }
            Err(error) => self.reject_proxy_header(table, key, error, handler),
        }
    }

    /// Ends a connection of a trusted proxy that does not begin with a PROXY header. That is an
    /// error in a configuration, of which the operator must learn.
    fn reject_proxy_header<D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        error: HeaderError,
        handler: &mut impl RequestHandler<D>,
    ) {
        table.stats.add(Metric::ProxyHeadersRejected, 1);
        if let Some(proxy) = table.origin(key) {
            let proxy = proxy.address().ip().to_string();
            let now = table.clock.now;
            self.warnings.warn(now, "proxy_header", &proxy, || {
                format!(
                    "a connection of the trusted proxy {proxy} does not begin with a PROXY \
                     protocol header: {error}; make the proxy send one, or leave out \
                     --proxy-protocol"
                )
            });
        }
        match table.is_tls(key) {
            true => table.close(key, CloseReason::Rejected),
            false => handler.reject_proxy_header(table, key),
        }
    }
}
