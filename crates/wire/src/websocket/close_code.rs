//! Close codes (RFC 6455, section 7.4).

/// Code of a close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CloseCode(u16);

impl CloseCode {
    /// 1000: the connection has done its work.
    pub const NORMAL: Self = Self(1000);
    /// 1001: the server is going down, or the browser has left the page.
    pub const GOING_AWAY: Self = Self(1001);
    /// 1002: the peer broke the protocol.
    pub const PROTOCOL: Self = Self(1002);
    /// 1003: the peer sent a kind of data that is not accepted.
    pub const UNSUPPORTED: Self = Self(1003);
    /// 1007: a text was not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// 1008: the peer may not do what it does.
    pub const POLICY: Self = Self(1008);
    /// 1009: a message was too big.
    pub const TOO_BIG: Self = Self(1009);
    /// 1013: the server is overloaded; try again later (registered with IANA).
    pub const TRY_AGAIN_LATER: Self = Self(1013);
    /// 3008: the client reads too slowly; it may connect again at once.
    pub const SLOW: Self = Self(3008);

    /// Returns the code with this number, if a peer may send it: those of RFC 6455 and of IANA's
    /// registry, and those of libraries and applications.
    pub const fn new(number: u16) -> Option<Self> {
        match number {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(number)),
            _ => None,
        }
    }

    /// Returns the number.
    pub const fn number(self) -> u16 {
        self.0
    }
}
