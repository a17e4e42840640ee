//! The tokens in force, which a reload replaces while requests are under way.
//!
//! Owns the counters by token: they are bounded, as those of removed tokens go with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;

use crate::error::StartError;
use crate::tokens::{LOCAL, Token, Tokens};

/// Reason why a request was denied, as a label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// It carries no token and should.
    NoToken,
    /// It carries a token that is not known.
    WrongToken,
    /// Its token has not the right that is needed, or may not name the id.
    Right,
    /// It carries no token, and is that of a web page or came through a proxy.
    NotLocal,
}

impl Denial {
    pub(crate) const ALL: [Self; 4] =
        [Self::NoToken, Self::WrongToken, Self::Right, Self::NotLocal];

    const fn name(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::WrongToken => "wrong_token",
            Self::Right => "right",
            Self::NotLocal => "not_local",
        }
    }
}

/// Requests by the name of their token, and denied requests by reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenCounts {
    pub(crate) requests: Vec<(String, u64)>,
    pub(crate) denied: Vec<(&'static str, u64)>,
}

/// The tokens in force. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub struct LiveTokens(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: RwLock<State>,
    /// Rises with each replacement.
    generation: AtomicU64,
    denied: [AtomicU64; Denial::ALL.len()],
    /// Whether requests may come without a token if there is none.
    may_be_open: AtomicBool,
    /// Whether the demo page is served, whose requests carry no token.
    has_demo: AtomicBool,
}

#[derive(Debug)]
struct State {
    tokens: Tokens,
    requests: BTreeMap<Box<str>, AtomicU64>,
}

impl State {
    fn new(tokens: Tokens, former: &mut BTreeMap<Box<str>, AtomicU64>) -> Self {
        let requests = std::iter::once(LOCAL)
            .chain(tokens.names())
            .map(|name| (name.into(), former.remove(name).unwrap_or_default()))
            .collect();
        Self { tokens, requests }
    }
}

impl LiveTokens {
    /// Puts tokens into force. `may_be_open`: only programs on this machine reach the listener.
    pub(crate) fn new(tokens: Tokens, may_be_open: bool) -> Self {
        Self(Arc::new(Inner {
            state: RwLock::new(State::new(tokens, &mut BTreeMap::new())),
            generation: AtomicU64::new(0),
            denied: Default::default(),
            may_be_open: AtomicBool::new(may_be_open),
            has_demo: AtomicBool::new(false),
        }))
    }

    /// Returns the tokens in force.
    pub(crate) fn current(&self) -> Tokens {
        self.0.state.read().tokens.clone()
    }

    /// Notes that other machines can reach a listener that has these tokens.
    pub(crate) fn keep_closed(&self) {
        self.0.may_be_open.store(false, Relaxed);
    }

    /// Notes that the demo page is served.
    pub(crate) fn open_demo(&self) {
        self.0.has_demo.store(true, Relaxed);
    }

    /// Replaces the tokens. The next request is checked with the new ones; a request under way
    /// whose token was removed or changed reads no more of its body.
    ///
    /// # Errors
    ///
    /// [`StartError::TokensRemoved`] when there would be no token where one is needed, and
    /// [`StartError::DemoNotPrivate`] when there would be one beside the demo page. Those in force
    /// stay.
    pub fn replace(&self, tokens: Tokens) -> Result<(), StartError> {
        if tokens.is_empty() && !self.0.may_be_open.load(Relaxed) {
            return Err(StartError::TokensRemoved);
        }
        if !tokens.is_empty() && self.0.has_demo.load(Relaxed) {
            return Err(StartError::DemoNotPrivate);
        }
        let names: Vec<&str> = tokens.names().collect();
        if !names.is_empty() {
            tracing::info!("tokens of the control API: {}", names.join(", "));
        }
        let mut state = self.0.state.write();
        let mut former = std::mem::take(&mut state.requests);
        *state = State::new(tokens, &mut former);
        self.0.generation.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Finds the token with this secret, and counts its request. `Err` if no token is known that
    /// has it; `Ok(None)` if no token is needed.
    pub(crate) fn check(&self, secret: Option<&[u8]>) -> Result<Option<Arc<Token>>, Denial> {
        let state = self.0.state.read();
        let token = match secret {
            _ if state.tokens.is_empty() => None,
            None => return Err(Denial::NoToken),
            Some(secret) => Some(state.tokens.find(secret).ok_or(Denial::WrongToken)?),
        };
        let name = token.map_or(LOCAL, |token| &token.name);
        if let Some(count) = state.requests.get(name) {
            count.fetch_add(1, Relaxed);
        }
        Ok(token.cloned())
    }

    /// Returns whether requests need a token.
    pub(crate) fn are_needed(&self) -> bool {
        !self.0.state.read().tokens.is_empty()
    }

    /// Returns the number of replacements so far.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Relaxed)
    }

    /// Returns whether a token is in force as it was.
    pub(crate) fn has(&self, token: &Token) -> bool {
        self.0.state.read().tokens.has(token)
    }

    /// Counts a denied request.
    pub(crate) fn deny(&self, denial: Denial) {
        self.0.denied[denial as usize].fetch_add(1, Relaxed);
    }

    /// Reads the counters.
    pub(crate) fn counts(&self) -> TokenCounts {
        let state = self.0.state.read();
        let requests = state.requests.iter();
        let denied = Denial::ALL.into_iter().zip(&self.0.denied);
        TokenCounts {
            requests: requests
                .map(|(name, count)| (name.to_string(), count.load(Relaxed)))
                .collect(),
            denied: denied
                .map(|(denial, count)| (denial.name(), count.load(Relaxed)))
                .collect(),
        }
    }
}
