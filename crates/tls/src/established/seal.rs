//! Records to the peer.

use aws_lc_rs::aead::LessSafeKey;

use super::{Established, RECORDS_PER_KEY_MAX};
use crate::TlsError;
use crate::alert::Alert;
use crate::record::{ALERT, APPLICATION_DATA, HANDSHAKE, HEADER_BYTES, PLAINTEXT_BYTES_MAX};
use crate::traffic::TAG_BYTES;

/// `KeyUpdate` that asks for none in return (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

impl Established {
    /// Appends the records that carry `slices`, one after another, to `out`.
    ///
    /// # Errors
    ///
    /// [`TlsError::Ended`] after [`close_notify`](Self::close_notify), [`TlsError::Internal`] when
    /// the cryptographic library fails. Then nothing is appended.
    pub(crate) fn seal(&mut self, slices: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.closed {
            return Err(TlsError::Ended);
        }
        let start = out.len();
        let sealed = self.seal_data(slices, out);
        if sealed.is_err() {
            out.truncate(start);
        }
        sealed
    }

    fn seal_data(&mut self, slices: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        let mut missing: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut slices = slices.iter().copied();
        let mut slice: &[u8] = &[];
        if missing > 0 && self.key_update_requested {
            self.update_keys(out)?;
        }
        let mut cipher = None;
        while missing > 0 {
            if self.send.sequence() >= RECORDS_PER_KEY_MAX {
                self.update_keys(out)?;
                cipher = None;
            }
            let cipher = match &cipher {
                Some(cipher) => cipher,
                None => cipher.insert(self.send.cipher(self.suite)?),
            };
            let bytes = missing.min(PLAINTEXT_BYTES_MAX);
            missing -= bytes;
            self.seal_record(cipher, APPLICATION_DATA, bytes, out, |out| {
                let mut room = bytes;
                while room > 0 {
                    if slice.is_empty() {
                        slice = slices.next().unwrap_or_default();
                        continue;
                    }
                    let (now, later) = slice.split_at(slice.len().min(room));
                    out.extend_from_slice(now);
                    room -= now.len();
                    slice = later;
                }
            })?;
        }
        Ok(())
    }

    /// Appends the record that announces new keys, and changes to them.
    fn update_keys(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.seal_message(HANDSHAKE, &KEY_UPDATE, out)?;
        self.send.update(self.suite)?;
        self.key_update_requested = false;
        Ok(())
    }

    /// Appends `close_notify`, unless it was sent. Nothing can be sealed after it.
    pub(crate) fn close_notify(&mut self, out: &mut Vec<u8>) {
        if !self.closed {
            self.seal_alert(Alert::CloseNotify, out);
        }
    }

    /// Appends an alert. Nothing can be sealed after it. Without a working cipher the connection
    /// ends without a word.
    pub(super) fn seal_alert(&mut self, alert: Alert, out: &mut Vec<u8>) {
        self.closed = true;
        let start = out.len();
        if self.seal_message(ALERT, &alert.body(), out).is_err() {
            out.truncate(start);
        }
    }

    fn seal_message(
        &mut self,
        content_type: u8,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let cipher = self.send.cipher(self.suite)?;
        let append = |out: &mut Vec<u8>| out.extend_from_slice(message);
        self.seal_record(&cipher, content_type, message.len(), out, append)
    }

    /// Appends one record, whose content of `bytes` bytes `append` writes.
    fn seal_record(
        &mut self,
        cipher: &LessSafeKey,
        content_type: u8,
        bytes: usize,
        out: &mut Vec<u8>,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), TlsError> {
        debug_assert!(
            content_type == ALERT || !self.closed,
            "nothing but an alert follows `close_notify`"
        );
        debug_assert!(
            bytes <= PLAINTEXT_BYTES_MAX,
            "a record has room for its content"
        );
        let payload = u16::try_from(bytes + 1 + TAG_BYTES).map_err(|_| TlsError::Internal)?;
        let [high, low] = payload.to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, high, low];
        out.reserve(HEADER_BYTES + usize::from(payload));
        out.extend_from_slice(&header);
        let start = out.len();
        append(out);
        debug_assert_eq!(
            out.len() - start,
            bytes,
            "a record has the length that it tells"
        );
        out.push(content_type);
        let tag = self.send.seal(cipher, &header, &mut out[start..])?;
        out.extend_from_slice(&tag);
        Ok(())
    }
}
