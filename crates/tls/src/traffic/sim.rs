//! Traffic keys from a secret alone: in a server, `rustls` derives the first ones.

use super::{IV_BYTES, KEY_BYTES_MAX, SECRET_BYTES_MAX, Suite, TrafficKeys};
use crate::TlsError;

impl TrafficKeys {
    /// Returns the keys of `secret`, and record number 0.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] unless `secret` has the length of the suite's hash.
    pub(crate) fn new(suite: Suite, secret: &[u8]) -> Result<Self, TlsError> {
        if secret.len() != suite.secret_bytes() {
            return Err(TlsError::Internal);
        }
        let mut keys = Self {
            secret: [0; SECRET_BYTES_MAX],
            key: [0; KEY_BYTES_MAX],
            iv: [0; IV_BYTES],
            sequence: [0; 8],
        };
        keys.secret[..secret.len()].copy_from_slice(secret);
        keys.expand(suite)?;
        Ok(keys)
    }

    /// Returns whether key and initialization vector follow from the secret.
    #[cfg(test)]
    pub(crate) fn are_derived(&self, suite: Suite) -> bool {
        let derived = Self::new(suite, &self.secret[..suite.secret_bytes()]);
        derived.is_ok_and(|derived| derived.key == self.key && derived.iv == self.iv)
    }
}
