//! What a worker counts. Each worker writes its own block with plain stores; readers sum the blocks.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($figure:ident $name:literal)*) => {
        /// A figure that each worker keeps.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Figure {
            $(#[doc = $name] $figure,)*
        }

        impl Figure {
            /// All figures.
            pub const ALL: &[Self] = &[$(Self::$figure),*];

            /// The figure's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$figure => $name,)*
                }
            }
        }
    };
}

figures! {
    Connections "connections"
    Accepted "connections_accepted"
    Refused "connections_refused"
    ClosedDone "connections_closed_done"
    ClosedReset "connections_closed_reset"
    ClosedTimeout "connections_closed_timeout"
    ClosedNoBackend "connections_closed_no_backend"
    ClosedHeader "connections_closed_header"
    ClosedDrain "connections_closed_drain"
    Connects "connects"
    ConnectsFailed "connects_failed"
    BytesUp "bytes_up"
    BytesDown "bytes_down"
    BytesSpliced "bytes_spliced"
    Pipes "pipes"
    Turns "turns"
    Signals "poll_events"
    Accepts "calls_accept"
    Receives "calls_recv"
    Sends "calls_send"
    Splices "calls_splice"
    AccessLinesLost "access_lines_lost"
}

/// One worker's figures. Written by the worker, read by anybody.
#[derive(Debug)]
pub struct WorkerStats([AtomicU64; Figure::ALL.len()]);

impl Default for WorkerStats {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl WorkerStats {
    /// Adds to a figure. Only the owning worker calls this, so no locked instruction is needed.
    pub(crate) fn add(&self, figure: Figure, count: u64) {
        let cell = &self.0[figure as usize];
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    /// Subtracts from a gauge.
    pub(crate) fn take(&self, figure: Figure, count: u64) {
        self.add(figure, count.wrapping_neg());
    }

    /// A figure's value.
    pub fn get(&self, figure: Figure) -> u64 {
        self.0[figure as usize].load(Ordering::Relaxed)
    }
}
