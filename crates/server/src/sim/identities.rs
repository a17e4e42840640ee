//! Identities of a server, for tests of other crates.

use auth::tickets::Redeemed;
use auth::{Identity, TicketError, UnixSeconds};

use crate::handle::Handle;

impl Handle {
    /// Returns what a ticket logs in as, without using it.
    ///
    /// # Errors
    ///
    /// When it is not valid at `now`.
    pub fn look_up_ticket(&self, text: &str, now: UnixSeconds) -> Result<Redeemed, TicketError> {
        self.shared.identity.tickets.lock().look_up(text, now)
    }

    /// Returns whether clients with a token of this `jti` are refused.
    pub fn refuses_token(&self, jti: &str, now: UnixSeconds) -> bool {
        let identity = Identity {
            token_id: Some(jti.into()),
            ..Identity::of_user("", now)
        };
        let revocations = self.shared.identity.revocations.read();
        revocations.check(&identity, [], now).is_err()
    }

    /// Leaves no room for tickets, revocations and bans.
    pub fn fill_identities(&self) {
        self.shared.identity.fill();
    }
}
