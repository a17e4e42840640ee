//! Ids of sockets, packed into the poller's tokens.

use reactor::{SlotKey, Token};

use crate::tcp::pair::Side;

/// Id of a watched socket that is not a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketId {
    /// One of a pair's two sockets.
    Pair(SlotKey, Side),
    /// The socket of a health check: index of the target and number of the attempt.
    HealthCheck(u16, u32),
}

const CLIENT: u16 = 0;
const BACKEND: u16 = 1;
const HEALTH_CHECK: u16 = 2;

impl SocketId {
    /// Packs the id.
    pub(crate) const fn token(self) -> Token {
        match self {
            Self::Pair(key, Side::Client) => Token::tagged(CLIENT, key),
            Self::Pair(key, Side::Backend) => Token::tagged(BACKEND, key),
            Self::HealthCheck(index, attempt) => {
                Token::tagged_number(HEALTH_CHECK, (index as u64) << 32 | attempt as u64)
            }
        }
    }

    /// Unpacks an id; `None` for tokens of the event loop.
    pub(crate) const fn of(token: Token) -> Option<Self> {
        Some(match token.tag() {
            CLIENT => Self::Pair(token.key(), Side::Client),
            BACKEND => Self::Pair(token.key(), Side::Backend),
            HEALTH_CHECK => Self::HealthCheck((token.number() >> 32) as u16, token.number() as u32),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_names_what_it_was_made_of(
            slot in 0..SlotKey::SLOTS_MAX,
            generation in 0_u32..1 << 28,
            id: u32,
            index: u16,
        ) {
            let key = SlotKey { index: slot, generation };
            for socket in [
                SocketId::Pair(key, Side::Client),
                SocketId::Pair(key, Side::Backend),
                SocketId::HealthCheck(index, id),
            ] {
                prop_assert_eq!(SocketId::of(socket.token()), Some(socket));
                prop_assert_eq!(socket.token().listener_id(), None);
            }
            prop_assert_eq!(SocketId::of(Token::listener(id)), None);
            prop_assert_eq!(SocketId::of(Token::MAILBOX), None);
        }
    }
}
