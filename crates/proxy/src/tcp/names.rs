//! Names of what a worker watches, packed into the poller's tokens.

use reactor::{SlotKey, Token};

/// One of a pair's two sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

/// What a signal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    Pair(SlotKey, Side),
    Listener(u32),
    /// A health check's socket: whose, and which attempt.
    Check(u16, u32),
    Mailbox,
}

const CLIENT: u16 = 0;
const BACKEND: u16 = 1;
const LISTENER: u16 = 2;
const CHECK: u16 = 3;

impl Watched {
    pub(crate) const fn token(self) -> Token {
        match self {
            Self::Pair(key, Side::Client) => Token::tagged(CLIENT, key),
            Self::Pair(key, Side::Backend) => Token::tagged(BACKEND, key),
            Self::Listener(id) => Token::tagged_number(LISTENER, id as u64),
            Self::Check(index, attempt) => {
                Token::tagged_number(CHECK, (index as u64) << 32 | attempt as u64)
            }
            Self::Mailbox => Token::MAILBOX,
        }
    }

    pub(crate) const fn of(token: Token) -> Self {
        match token.tag() {
            CLIENT => Self::Pair(token.key(), Side::Client),
            BACKEND => Self::Pair(token.key(), Side::Backend),
            LISTENER => Self::Listener(token.number() as u32),
            CHECK => Self::Check((token.number() >> 32) as u16, token.number() as u32),
            _ => Self::Mailbox,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_names_what_it_was_made_of(slot in 0..SlotKey::SLOTS_MAX, generation in 0_u32..1 << 28, id: u32, index: u16) {
            let key = SlotKey { index: slot, generation };
            for watched in [
                Watched::Pair(key, Side::Client),
                Watched::Pair(key, Side::Backend),
                Watched::Listener(id),
                Watched::Check(index, id),
                Watched::Mailbox,
            ] {
                prop_assert_eq!(Watched::of(watched.token()), watched);
            }
        }
    }
}
