//! Kinds of client failures. Each is reported as one sentence: what happened, how often, what to
//! do.

use rustix::io::Errno;

/// Reason why a client failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// No source address and port left.
    NoPort,
    /// The descriptor limit is reached.
    NoDescriptor,
    /// No memory for a socket.
    NoMemory,
    /// The connection was refused.
    Refused,
    /// The server reset the connection before its head.
    Reset,
    /// No answer in time.
    TimedOut,
    /// The server's address is unreachable.
    Unreachable,
    /// The server ended the connection before its head.
    EndedEarly,
    /// An answer with this status, which does not open a stream.
    Status(u16),
    /// Bytes that violate the protocol.
    Malformed,
    /// A failed TLS handshake, or a record that cannot be decrypted.
    Tls,
    /// Anything else.
    Other,
    /// The client was not begun, as too many before it had failed.
    NotBegun,
}

impl FailureKind {
    pub(super) fn of(errno: Errno) -> Self {
        match errno {
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::NoPort,
            Errno::MFILE | Errno::NFILE => Self::NoDescriptor,
            Errno::NOBUFS | Errno::NOMEM => Self::NoMemory,
            Errno::CONNREFUSED => Self::Refused,
            Errno::CONNRESET | Errno::PIPE => Self::Reset,
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::ACCESS | Errno::INVAL => {
                Self::Unreachable
            }
            _ => Self::Other,
        }
    }

    /// Describes the failure of `count` clients; `detail` is the error of the first.
    pub(super) fn sentence(self, count: u64, detail: &str) -> String {
        let plural = if count == 1 { "" } else { "s" };
        let clients = format!("{count} client{plural}");
        let (what, remedy) = self.describe();
        let what = match self {
            Self::Status(status) => format!("were answered with status {status}"),
            _ => what.to_owned(),
        };
        let first = match detail {
            "" => String::new(),
            detail => format!(" (the first: {detail})"),
        };
        format!("{clients} {what}{first}: {remedy}")
    }

    /// Returns what happened, except for a status, and what to do.
    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::NoPort => (
                "found no free source address and port",
                "give more addresses with --source, or wait a minute for the ports of an earlier \
                 run",
            ),
            Self::NoDescriptor => (
                "found no free descriptor",
                "raise `ulimit -n`, or use --private-fds with more --threads",
            ),
            Self::NoMemory => (
                "found no kernel memory for a socket",
                "raise net.ipv4.tcp_mem, or free memory",
            ),
            Self::Refused => (
                "found no server listening",
                "start the server or correct the address",
            ),
            Self::Reset => (
                "were reset by the server before its head",
                "look at its log, and at its limits on connections and descriptors",
            ),
            Self::TimedOut => (
                "got no answer in time",
                "the accept queue may have overflowed, so use a smaller --window or a --ramp, or \
                 raise net.core.somaxconn",
            ),
            Self::Unreachable => (
                "found no route to the server",
                "choose a --source that can reach its address",
            ),
            Self::EndedEarly => (
                "were closed before their head",
                "look at the server's log, and at its limits on connections",
            ),
            Self::Status(status) => ("", remedy_of(status)),
            Self::Malformed => (
                "got bytes that are not the expected stream",
                "check --transport and the server",
            ),
            Self::Tls => (
                "got no TLS session, or lost it",
                "check the URL, --ca and the server's certificate",
            ),
            Self::Other => ("failed", "look the error up"),
            Self::NotBegun => (
                "were not begun, as 100 in a row had failed",
                "see the other failures for the reason",
            ),
        }
    }
}

fn remedy_of(status: u16) -> &'static str {
    match status {
        200 => "this answer opens no WebSocket, so check the URL and --transport",
        401 | 403 => "give credentials with --token-file, --jwt-secret-file or --header",
        404 | 405 => "check the URL's path",
        408 => "their requests took too long for the server",
        429 | 503 => {
            "the server takes no more clients, so open fewer, use --ramp or raise its limits"
        }
        _ => "check the URL and --transport, or look at the server's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_count_cause_and_remedy() {
        assert_eq!(
            FailureKind::Status(503).sentence(2, "too many connections"),
            "2 clients were answered with status 503 (the first: too many connections): the server \
             takes no more clients, so open fewer, use --ramp or raise its limits"
        );
        assert!(
            FailureKind::of(Errno::CONNREFUSED)
                .sentence(1, "")
                .starts_with("1 client found no server listening: start the server")
        );
    }
}
