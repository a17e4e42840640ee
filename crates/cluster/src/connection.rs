//! Connection to the engine.
//!
//! Owns how long a dead server can go unnoticed, and the counts of what happens to the connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use tokio::time::{sleep, timeout};

use crate::error::JoinError;
use crate::options::{Credentials, Options};

/// Time for a connection to be made and to greet. A stopped server accepts and says nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of pings. The library gives a connection up when the third is due and none is answered.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Time for the engine to answer a request. An election takes longer; the caller asks again.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest pause between two attempts to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Attempts to get to another server at a time: one is chosen by chance.
const CHANGES_MAX: usize = 4;

/// Pause between two such attempts: the server is heard meanwhile, and may be the only one that can
/// be reached.
const CHANGE_PAUSE: Duration = Duration::from_secs(1);

/// Interval at which a new connection is looked for.
const CONNECTED_INTERVAL: Duration = Duration::from_millis(50);

/// Commands to the connection that may wait: a few entries and receipts. Beyond it senders wait.
const COMMANDS_MAX: usize = 256;

/// What happened to the connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    /// Connections made, the first one included.
    pub(crate) connected: AtomicU64,
    /// Connections lost.
    pub(crate) disconnected: AtomicU64,
    /// Messages that the library dropped because they were not read in time.
    pub(crate) dropped: AtomicU64,
}

/// Connects to one of the servers, and stays connected to any of them.
///
/// # Errors
///
/// When none can be reached, the credentials are refused, or a file cannot be used.
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
    let unusable = |error: io::Error| JoinError::File {
        reason: format!("--cluster-credentials is not a credentials file: {error}"),
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

/// Returns the pause before an attempt to connect: none before the first, so that another server is
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
            JoinError::Unauthorized { reason }
        }
        _ => {
            let servers: Vec<_> = options.servers.iter().map(ToString::to_string).collect();
            let servers = servers.join(", ");
            JoinError::Unreachable { servers, reason }
        }
    }
}

/// Connects to another server of the engine, if another one can be reached. One that is cut off
/// from the others answers, and is of no use.
pub(crate) async fn change_server(client: &Client) {
    let left = client.server_info().server_id;
    let statistics = client.statistics();
    for _ in 0..CHANGES_MAX {
        let made = statistics.connects.load(Ordering::Relaxed);
        if client.force_reconnect().await.is_err() {
            // The connection has ended for good only when the node has.
            return;
        }
        let connected = async {
            while statistics.connects.load(Ordering::Relaxed) == made {
                sleep(CONNECTED_INTERVAL).await;
            }
            // Which server it is becomes known just after that.
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
    fn the_first_attempts_come_at_once_and_later_ones_twice_a_second() {
        assert_eq!(pause(1), Duration::ZERO);
        assert!((2..10).all(|attempts| pause(attempts) <= pause(attempts + 1)));
        assert_eq!(pause(usize::MAX), RECONNECT_PAUSE_MAX);
    }
}
