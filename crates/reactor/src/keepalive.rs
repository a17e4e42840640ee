//! Keepalive probes: when a silent peer is asked whether it is still there.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Unanswered probes before a connection ends. One packet may be lost, and a burst of probes loses
/// many at once.
const PROBES: u32 = 3;

/// Shortest time that the kernel takes for either value.
const SECOND: Duration = Duration::from_secs(1);

/// Times of the probes on a connection (`TCP_KEEPIDLE`, `TCP_KEEPINTVL`).
///
/// On a socket with `TCP_USER_TIMEOUT` the kernel counts no probes. Once that time has passed since
/// the peer was last heard, it ends the connection at the first timer that finds one probe without
/// an answer (`tcp_keepalive_timer`). If the first probe went out no earlier, one lost packet ends
/// a connection whose peer is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence after which the first probe is sent.
    pub idle: Duration,
    /// Time from one probe to the next.
    pub interval: Duration,
}

impl Keepalive {
    /// Probes after `silence`, or earlier where three would not fit before `user_timeout` ends a
    /// connection. In less than six seconds there are fewer, as the kernel counts in seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// let keepalive = reactor::Keepalive::new(Duration::from_secs(30), Duration::from_secs(30));
    /// assert_eq!(keepalive.idle, Duration::from_secs(15));
    /// assert_eq!(keepalive.interval, Duration::from_secs(5));
    /// ```
    #[must_use]
    pub fn new(silence: Duration, user_timeout: Duration) -> Self {
        let idle = silence.min(user_timeout / 2).max(SECOND);
        let interval = (user_timeout.saturating_sub(idle) / PROBES).max(SECOND);
        Self { idle, interval }
    }

    /// Probes of a connection on which something else finds out whether the peer is there, at least
    /// once in `silence`: they are sent only when that fails.
    #[must_use]
    pub fn beyond(silence: Duration, user_timeout: Duration) -> Self {
        Self {
            idle: (silence + user_timeout).max(SECOND),
            interval: (user_timeout / PROBES).max(SECOND),
        }
    }
}

/// Sets the options of a socket by which small writes leave at once, and a connection whose peer is
/// gone ends.
pub(crate) fn prepare(
    socket: impl AsFd,
    user_timeout: Duration,
    keepalive: Option<Keepalive>,
) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    let timeout = u32::try_from(user_timeout.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(socket, timeout)?;
    if let Some(Keepalive { idle, interval }) = keepalive {
        sockopt::set_tcp_keepidle(socket, idle)?;
        sockopt::set_tcp_keepintvl(socket, interval)?;
        sockopt::set_tcp_keepcnt(socket, PROBES)?;
        sockopt::set_socket_keepalive(socket, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_probes_go_out_before_the_user_timeout_ends_a_connection() {
        for user_timeout in [6, 10, 30, 31, 600].map(Duration::from_secs) {
            for silence in [1, 2, 15, 30, 60, 7200].map(Duration::from_secs) {
                let Keepalive { idle, interval } = Keepalive::new(silence, user_timeout);
                assert!(idle <= silence);
                let third = idle + 2 * interval;
                assert!(
                    third < user_timeout,
                    "{silence:?}, {user_timeout:?}: {third:?}"
                );
            }
        }
    }
}
