//! Connection to the engine.
//!
//! Owns the time until a dead server is noticed, and the counters of the connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use tokio::time::{sleep, timeout};

use crate::error::JoinError;
use crate::options::{Credentials, Options};

/// Timeout of connecting, including the server's greeting: a stopped server accepts connections but
/// sends nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of pings. The library closes a connection if two pings are unanswered when the third is
/// due.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Timeout of a request to the engine. An election takes longer, so callers retry.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum pause between two attempts to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Maximum number of reconnects to get to another server, as the library picks a random one.
const CHANGES_MAX: usize = 4;

/// Pause between two such reconnects. Meanwhile the connection is used, as this server may be the
/// only reachable one.
const CHANGE_PAUSE: Duration = Duration::from_secs(1);

/// Interval of checks for a new connection.
const CONNECTED_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of commands that wait for the connection: a few entries and receipts. Beyond it
/// senders wait.
const COMMANDS_MAX: usize = 256;

/// Counters of the connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    /// Number of connections made, including the first one.
    pub(crate) connected: AtomicU64,
    /// Number of connections lost.
    pub(crate) disconnected: AtomicU64,
    /// Number of messages that the library dropped because they were not read in time.
    pub(crate) dropped: AtomicU64,
}

/// Connects to one of the servers. The client reconnects to any of them by itself.
///
/// # Errors
///
/// When no server can be reached, the credentials are refused, or a file cannot be used.
pub(crate) async fn connect(
    options: &Options,
    counts: &Arc<ConnectionCounts>,
) -> Result<Client, JoinError> {
    let servers: Vec<_> = options
        .servers
        .iter()
        .map(|server| server.to_addr())
        .collect();
    let connecting = connect_options(options, counts)?.connect(servers);
    connecting.await.map_err(|error| refusal(options, &error))
}

fn connect_options(
    options: &Options,
    counts: &Arc<ConnectionCounts>,
) -> Result<ConnectOptions, JoinError> {
    let counts = Arc::clone(counts);
    let mut connection = ConnectOptions::new()
        .name(format!("encke {} {}", options.cluster, options.node))
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .client_capacity(COMMANDS_MAX)
        .reconnect_delay_callback(pause)
        .event_callback(move |event| {
            let counts = Arc::clone(&counts);
            async move { counts.count(&event) }
        });
    let unusable = |error: io::Error| {
        JoinError::File(format!(
            "--cluster-credentials is not a credentials file: {error}"
        ))
    };
    connection = match &options.credentials {
        Credentials::None => connection,
        Credentials::Password { user, password } => {
            connection.user_and_password(user.clone(), password.reveal().to_owned())
        }
        Credentials::Token(token) => connection.token(token.reveal().to_owned()),
        Credentials::Nkey(seed) => connection.nkey(seed.reveal().to_owned()),
        Credentials::File(text) => connection.credentials(text.reveal()).map_err(unusable)?,
    };
    if options.tls.is_required() {
        connection = connection.require_tls(true);
    }
    if let Some(file) = &options.tls.authorities {
        connection = connection.add_root_certificates(file.clone());
    }
    if let Some((certificate, key)) = &options.tls.identity {
        connection = connection.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(connection)
}

/// Returns the pause before an attempt to connect: zero before the first, so that another server is
/// tried at once.
fn pause(attempts: usize) -> Duration {
    let milliseconds = match attempts {
        0 | 1 => 0,
        _ => 10_u64.saturating_mul(1 << attempts.min(10)),
    };
    Duration::from_millis(milliseconds).min(RECONNECT_PAUSE_MAX)
}

fn refusal(options: &Options, error: &ConnectError) -> JoinError {
    let reason = error.to_string();
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            JoinError::Unauthorized(reason)
        }
        _ => {
            let servers: Vec<_> = options.servers.iter().map(ToString::to_string).collect();
            let servers = servers.join(", ");
            JoinError::Unreachable { servers, reason }
        }
    }
}

/// Connects to another server of the engine if one can be reached: a server that is cut off from
/// the others answers, but is of no use.
pub(crate) async fn change_server(client: &Client) {
    let left = client.server_info().server_id;
    let statistics = client.statistics();
    for _ in 0..CHANGES_MAX {
        let made = statistics.connects.load(Ordering::Relaxed);
        if client.force_reconnect().await.is_err() {
            // This only happens if the node has ended.
            return;
        }
        let connected = async {
            while statistics.connects.load(Ordering::Relaxed) == made {
                sleep(CONNECTED_INTERVAL).await;
            }
            // The identity of the server is known shortly after that.
            sleep(CONNECTED_INTERVAL).await;
        };
        let is_connected = timeout(CONNECT_TIMEOUT, connected).await.is_ok();
        if !is_connected || client.server_info().server_id != left {
            return;
        }
        sleep(CHANGE_PAUSE).await;
    }
}

impl ConnectionCounts {
    fn count(&self, event: &Event) {
        let counter = match event {
            Event::Connected => {
                tracing::info!("connected to the cluster's engine");
                &self.connected
            }
            Event::Disconnected => {
                tracing::warn!("the connection to the cluster's engine is lost");
                &self.disconnected
            }
            Event::SlowConsumer(_) => &self.dropped,
            Event::ServerError(error) => {
                return tracing::warn!("the cluster's engine reports an error: {error}");
            }
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempts_are_immediate_and_later_ones_twice_a_second() {
        assert_eq!(pause(1), Duration::ZERO);
        assert!((2..10).all(|attempts| pause(attempts) <= pause(attempts + 1)));
        assert_eq!(pause(usize::MAX), RECONNECT_PAUSE_MAX);
    }
}
