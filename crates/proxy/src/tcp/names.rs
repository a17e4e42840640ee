//! Names of what a worker watches, packed into the poller's tokens.

use reactor::Token;

/// Names a pair: a slot, and which of the pairs that it has held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// One of a pair's two sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

/// What a signal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    Pair(Name, Side),
    Listener(u32),
    /// A health check's socket: whose, and which attempt.
    Check(u16, u32),
    Mailbox,
}

/// The kind is told by the three highest bits: a generation has 28, a slot 32 and a side one.
const KIND_SHIFT: u32 = 61;
const LISTENER: u64 = 1;
const CHECK: u64 = 2;

impl Watched {
    pub(crate) const fn token(self) -> Token {
        Token(match self {
            Self::Pair(name, side) => {
                (name.generation as u64) << 33 | (name.slot as u64) << 1 | side as u64
            }
            Self::Listener(id) => LISTENER << KIND_SHIFT | id as u64,
            Self::Check(index, attempt) => {
                CHECK << KIND_SHIFT | (index as u64) << 32 | attempt as u64
            }
            Self::Mailbox => return Token::MAILBOX,
        })
    }

    pub(crate) const fn of(token: Token) -> Self {
        let bits = token.0;
        match bits >> KIND_SHIFT {
            0 => Self::Pair(
                Name {
                    slot: (bits >> 1) as u32,
                    generation: (bits >> 33) as u32,
                },
                if bits & 1 == 0 {
                    Side::Client
                } else {
                    Side::Backend
                },
            ),
            LISTENER => Self::Listener(bits as u32),
            CHECK => Self::Check((bits >> 32) as u16, bits as u32),
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
        fn a_token_names_what_it_was_made_of(slot: u32, generation in 0_u32..1 << 28, id: u32, index: u16) {
            let name = Name { slot, generation };
            for watched in [
                Watched::Pair(name, Side::Client),
                Watched::Pair(name, Side::Backend),
                Watched::Listener(id),
                Watched::Check(index, id),
                Watched::Mailbox,
            ] {
                prop_assert_eq!(Watched::of(watched.token()), watched);
            }
        }
    }
}
