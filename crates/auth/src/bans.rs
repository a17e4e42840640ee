//! Bans: ids that may not log in until a time.

use crate::expiring::{ExpiringMap, Full};
use crate::time::UnixSeconds;

/// Most ids that are banned at a time: about 10 MB. A ban beyond that is refused.
pub const BANS_MAX: usize = 65_536;

/// Longest ban: 30 days. Beyond it, the issuer must refuse tokens to the user.
pub const BAN_SECONDS_MAX: u64 = 30 * 24 * 3600;

/// Set of banned ids. Kept in memory; the caller stores what must survive a restart.
#[derive(Debug)]
pub struct Bans {
    ids: ExpiringMap<()>,
}

/// Reason why an id cannot be banned. Its `Display` is a sentence for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BanError {
    /// There are [`BANS_MAX`] already.
    #[error("65,536 ids are banned already; lift a ban, or wait until some lapse")]
    Full,
    /// The ban is longer than [`BAN_SECONDS_MAX`].
    #[error("a ban lasts at most 30 days")]
    TooLong,
}

impl Default for Bans {
    fn default() -> Self {
        Self::with_max(BANS_MAX)
    }
}

impl Bans {
    /// Returns an empty set for at most `max` ids.
    pub fn with_max(max: usize) -> Self {
        Self {
            ids: ExpiringMap::new(max),
        }
    }

    /// Bans `id` for `seconds` from `now`. An earlier ban that lasts longer is kept.
    ///
    /// # Errors
    ///
    /// When there are too many, or when the ban is too long.
    pub fn ban(&mut self, id: &str, seconds: u64, now: UnixSeconds) -> Result<(), BanError> {
        if seconds > BAN_SECONDS_MAX {
            return Err(BanError::TooLong);
        }
        let set = self.ids.set(id, (), now.plus(seconds), now, |(), ()| ());
        set.map_err(|Full| BanError::Full)
    }

    /// Ends the ban of `id`. Returns whether there was one.
    pub fn lift(&mut self, id: &str) -> bool {
        self.ids.remove(id)
    }

    /// Returns the end of the ban of `id`, if there is one.
    pub fn until(&self, id: &str, now: UnixSeconds) -> Option<UnixSeconds> {
        self.ids.get(id, now).map(|(_, until)| until)
    }

    /// Returns whether there is no ban.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the number of bans, including expired ones that were not removed yet.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Removes the expired bans, as [`ban`](Self::ban) does, too.
    pub fn forget_until(&mut self, now: UnixSeconds) {
        self.ids.forget_until(now);
    }
}
