//! The engine: the connection and the log, checked before the node runs.

use std::fmt;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use async_nats::Client;
use tokio::runtime::{Builder, Runtime};

use crate::connection::{self, ConnectionCounts};
use crate::doubt::Doubt;
use crate::error::JoinError;
use crate::options::Options;
use crate::stream::{self, LogState, LogStream};

/// Interval of checks whether the log has all entries that a node has applied.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// Number of threads for the connection, the log and the other nodes. They are mostly idle.
const THREADS: usize = 2;

/// Connection to the engine, with the log of the cluster. Owned by the node while it runs.
pub struct Engine {
    pub(crate) runtime: Runtime,
    pub(crate) client: Client,
    pub(crate) counts: Arc<ConnectionCounts>,
    pub(crate) stream: LogStream,
    pub(crate) state: LogState,
}

impl Engine {
    /// Connects to the engine and opens the log of the cluster. If there is none, creates it with
    /// `new_epoch` as the epoch of its event ids.
    ///
    /// # Errors
    ///
    /// A [`JoinError`] that says what to do.
    pub fn join(options: &Options, new_epoch: &str) -> Result<Self, JoinError> {
        let runtime = start_runtime()?;
        let counts = Arc::default();
        let (client, stream, state) = runtime.block_on(async {
            let client = connection::connect(options, &counts).await?;
            let (stream, state) = LogStream::open(&client, options, new_epoch).await?;
            Ok((client, stream, state))
        })?;
        Ok(Self {
            runtime,
            client,
            counts,
            stream,
            state,
        })
    }

    /// Checks that a node can join: the connection, and the log if there is one. Creates nothing.
    ///
    /// # Errors
    ///
    /// Those of [`join`](Self::join).
    pub fn check(options: &Options) -> Result<(), JoinError> {
        let runtime = start_runtime()?;
        runtime.block_on(async {
            let client = connection::connect(options, &Arc::default()).await?;
            let context = stream::context(&client, options)?;
            stream::find_log(&context, &options.cluster).await?;
            Ok(())
        })
    }

    /// Returns the epoch of event ids in this cluster, which identifies this log.
    pub fn epoch(&self) -> &str {
        &self.stream.epoch
    }

    /// Returns the state of the log when the node joined.
    pub const fn state(&self) -> &LogState {
        &self.state
    }

    /// Waits until the log has all entries that this node had applied when it ended: a leader that
    /// was just elected may not have them yet. Blocks the thread.
    ///
    /// # Errors
    ///
    /// When the log still ends earlier after some time: it has lost entries, or is another one.
    pub fn wait_for_end(&mut self, applied: u64) -> Result<(), JoinError> {
        let (start, mut doubt) = (Instant::now(), Doubt::default());
        while let Err(error) = self.state.check_end(applied) {
            if doubt.note(start.elapsed(), true) {
                return Err(error);
            }
            park_timeout(ASK_INTERVAL);
            self.state = self.ask()?;
        }
        Ok(())
    }

    /// Requests the state of the log. Blocks the thread.
    ///
    /// # Errors
    ///
    /// When the engine does not answer.
    pub fn ask(&self) -> Result<LogState, JoinError> {
        self.runtime.block_on(self.stream.state())
    }
}

pub(crate) fn start_runtime() -> Result<Runtime, JoinError> {
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("encke-cluster")
        .enable_all()
        .build()
        .map_err(|error| {
            JoinError::Request(format!(
                "threads for the cluster cannot be started: {error}"
            ))
        })
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = &self.stream;
        f.debug_struct("Engine").field("stream", stream).finish()
    }
}
