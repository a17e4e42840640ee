//! The `Date` of answers.

use wire::response::{DATE_BYTES, http_date};

/// The `Date` of an answer (RFC 9110, section 6.6.1), formatted once a second.
pub(super) struct DateField {
    unix_seconds: u64,
    text: [u8; DATE_BYTES],
}

impl Default for DateField {
    fn default() -> Self {
        let unix_seconds = 0;
        Self {
            unix_seconds,
            text: http_date(unix_seconds),
        }
    }
}

impl DateField {
    /// Returns the date at a time.
    pub(super) fn at(&mut self, unix_seconds: u64) -> &[u8; DATE_BYTES] {
        if unix_seconds != self.unix_seconds {
            self.unix_seconds = unix_seconds;
            self.text = http_date(unix_seconds);
        }
        &self.text
    }
}
