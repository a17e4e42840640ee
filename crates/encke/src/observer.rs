//! The control listener of commands that can be looked at and take no orders: `proxy` and `hello`.
//!
//! Owns the text of its failures. There is none, and no thread of it, unless it is asked for.

use std::net::SocketAddr;

use control::{Control, Observed, ObserverConfig};

use crate::config::{Secret, check_control};
use crate::epoch;
use crate::failure::Failure;

/// Where one may look, and with which token.
#[derive(Debug, Clone)]
pub(crate) struct Observer {
    listen: SocketAddr,
    token: Option<Secret>,
}

impl Observer {
    /// A control listener at an address.
    ///
    /// # Errors
    ///
    /// A sentence, when programs on other machines could look without a token.
    pub(crate) fn new(listen: SocketAddr, token: Option<Secret>) -> Result<Self, String> {
        check_control(listen, token.is_some())?;
        Ok(Self { listen, token })
    }

    /// Lets `program` be looked at until the answer is stopped or dropped.
    ///
    /// Must come after the workers: one with a descriptor table of its own needs no descriptor of this,
    /// and a copy of the listener would outlive it.
    pub(crate) fn open(self, program: impl Observed) -> Result<Control, Failure> {
        let config = ObserverConfig {
            listen: self.listen,
            token: self.token.map(|token| token.reveal().to_owned()),
            epoch: epoch::of_this_run(),
        };
        control::observe(config, program).map_err(Failure::failed)
    }
}
