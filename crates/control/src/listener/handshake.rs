//! TLS handshakes, and the configuration that a reload replaces.
//!
//! `rustls` serves these connections from beginning to end. Must never keep a peer without a bound
//! on its time, or tell it more about a failure than an alert does.

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::time_provider::DefaultTimeProvider;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::limits::{LINGER_BYTES_MAX, LINGER_WAIT};

/// The TLS configuration in force. Shared by the listeners and the thread that reloads.
#[derive(Clone)]
pub struct LiveTls(Arc<RwLock<Arc<ServerConfig>>>);

impl LiveTls {
    pub(crate) fn new(config: &tls::ServerConfig) -> Self {
        Self(Arc::new(RwLock::new(of_rustls(config))))
    }

    /// Replaces the configuration, for connections that are accepted from now on.
    pub fn replace(&self, config: &tls::ServerConfig) {
        *self.0.write() = of_rustls(config);
    }

    /// Returns the configuration for a new connection.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read())
    }
}

impl fmt::Debug for LiveTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTls").finish_non_exhaustive()
    }
}

fn of_rustls(config: &tls::ServerConfig) -> Arc<ServerConfig> {
    config.to_rustls(Arc::new(DefaultTimeProvider))
}

/// Makes the handshake on a connection. If it fails, the peer gets the alert and an end, and there
/// is no stream. The caller bounds the time.
pub(super) async fn accept<S>(config: Arc<ServerConfig>, stream: S) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match TlsAcceptor::from(config)
        .accept(stream)
        .into_fallible()
        .await
    {
        Ok(stream) => Some(stream),
        Err((_, stream)) => {
            // The peer has gone, or it reads nothing; there is nothing more to do for it.
            let _ = timeout(LINGER_WAIT, end(stream)).await;
            None
        }
    }
}

/// Ends this side, and reads on: closing with unread bytes would reset the connection, and the
/// alert could be lost.
async fn end<S>(mut stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.shutdown().await?;
    let mut rest = stream.take(LINGER_BYTES_MAX as u64);
    copy(&mut rest, &mut sink()).await.map(drop)
}
