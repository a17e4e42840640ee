//! Records on the wire (RFC 8446, section 5).

use std::borrow::Cow;

use crate::TlsError;

/// A header: content type, version, length of the payload.
pub(crate) const HEADER_BYTES: usize = 5;

/// The most plaintext in a record.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 1 << 14;

/// The longest payload of an encrypted record of TLS 1.3 (RFC 8446, section 5.2).
pub(crate) const CIPHERTEXT_BYTES_MAX: usize = PLAINTEXT_BYTES_MAX + 256;

/// The longest payload of an encrypted record of TLS 1.2 (RFC 5246, section 6.2.3).
pub(crate) const CIPHERTEXT_12_BYTES_MAX: usize = PLAINTEXT_BYTES_MAX + 2048;

/// Content type of alerts.
pub(crate) const ALERT: u8 = 21;

/// Content type of handshake messages.
pub(crate) const HANDSHAKE: u8 = 22;

/// Content type of application data, and of every encrypted record of TLS 1.3.
pub(crate) const APPLICATION_DATA: u8 = 23;

/// Consecutive records without content that are accepted, as in rustls and BoringSSL: they cost the
/// server a decryption, and the peer nearly nothing.
pub(crate) const EMPTY_RECORDS_MAX: u8 = 32;

/// Returns the length of the payload, by its header.
pub(crate) fn payload_bytes(header: &[u8]) -> Option<usize> {
    let length = header.get(3..HEADER_BYTES)?;
    Some(usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// The beginning of a record whose end has not arrived. Nothing is allocated while there is none.
#[derive(Default)]
#[expect(
    clippy::box_collection,
    reason = "8 bytes in an idle connection and not 24"
)]
pub(crate) struct Partial(Option<Box<Vec<u8>>>);

impl Partial {
    /// Takes the next whole record off `input`, its header included, or keeps what is left.
    ///
    /// # Errors
    ///
    /// [`TlsError::TooLarge`] as soon as a header announces a payload of more than `payload_max`
    /// bytes.
    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        payload_max: usize,
    ) -> Result<Option<Cow<'a, [u8]>>, TlsError> {
        let Some(mut begun) = self.0.take() else {
            return match whole(input, payload_max)? {
                Some(bytes) => {
                    let (record, rest) = input.split_at(bytes);
                    *input = rest;
                    Ok(Some(Cow::Borrowed(record)))
                }
                None if input.is_empty() => Ok(None),
                None => {
                    let mut begun = Box::default();
                    append(&mut begun, input, input.len());
                    self.0 = Some(begun);
                    Ok(None)
                }
            };
        };
        let header = HEADER_BYTES.saturating_sub(begun.len());
        append(&mut begun, input, header);
        let Some(payload) = payload_bytes(&begun) else {
            self.0 = Some(begun);
            return Ok(None);
        };
        if payload > payload_max {
            return Err(TlsError::TooLarge);
        }
        let missing = HEADER_BYTES + payload - begun.len();
        append(&mut begun, input, missing);
        if begun.len() < HEADER_BYTES + payload {
            self.0 = Some(begun);
            return Ok(None);
        }
        Ok(Some(Cow::Owned(*begun)))
    }

    /// Bytes that wait for the end of their record.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |begun| begun.len())
    }
}

/// Returns the length of the record at the beginning of `input`, if all of it is there.
fn whole(input: &[u8], payload_max: usize) -> Result<Option<usize>, TlsError> {
    match payload_bytes(input) {
        Some(payload) if payload > payload_max => Err(TlsError::TooLarge),
        Some(payload) if input.len() >= HEADER_BYTES + payload => Ok(Some(HEADER_BYTES + payload)),
        _ => Ok(None),
    }
}

/// Moves up to `count` bytes from `input` to the end of `begun`. Memory grows with what has
/// arrived, not with what a header announces.
fn append(begun: &mut Vec<u8>, input: &mut &[u8], count: usize) {
    let (now, later) = input.split_at(count.min(input.len()));
    begun.extend_from_slice(now);
    *input = later;
}
