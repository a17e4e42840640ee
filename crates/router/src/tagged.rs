//! Payloads as a tag and one run of bytes, as the replicated log carries them.
//!
//! Owns that form. Must never check what the bytes spell: publishers do, and only nodes write the
//! log.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::event::{ContentType, Payload};

/// Bit of the tag of a payload with a second encoding. The bytes then begin with the length of the
/// first one, 4 bytes with the lowest first.
const HAS_NATIVE: u8 = 0x40;

// A tag fits into the records of the history and of the log.
const _: () = assert!(HAS_NATIVE * 2 - 1 <= history::Entry::TAG_MAX);

/// Bytes of that length.
const LENGTH_BYTES: usize = size_of::<u32>();

impl Payload {
    /// Returns the payload as a tag and bytes. Copies nothing unless there is a second encoding.
    ///
    /// # Panics
    ///
    /// When the content has 4 GiB or more, which no limit on events allows.
    pub fn to_tagged(&self) -> (u8, Bytes) {
        let tag = self.content_type().tag();
        let Some(native) = self.native() else {
            return (tag, self.bytes().clone());
        };
        let length = u32::try_from(self.bytes().len()).expect("an event is smaller than 4 GiB");
        let mut both = BytesMut::with_capacity(LENGTH_BYTES + self.bytes().len() + native.len());
        both.put_u32_le(length);
        both.put_slice(self.bytes());
        both.put_slice(native);
        (tag | HAS_NATIVE, both.freeze())
    }

    /// Returns the payload of a tag and bytes; `None` if they are not what [`to_tagged`] returns.
    ///
    /// [`to_tagged`]: Self::to_tagged
    pub fn of_tagged(tag: u8, bytes: Bytes) -> Option<Self> {
        let content_type = ContentType::of_tag(tag & !HAS_NATIVE)?;
        if tag & HAS_NATIVE == 0 {
            return Some(Self::new(content_type, bytes));
        }
        let length = u32::from_le_bytes(*bytes.first_chunk::<LENGTH_BYTES>()?);
        let native_at = LENGTH_BYTES.checked_add(usize::try_from(length).ok()?)?;
        if native_at > bytes.len() {
            return None;
        }
        let own = bytes.slice(LENGTH_BYTES..native_at);
        Some(Self::new(content_type, own).with_native(bytes.slice(native_at..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads() -> Vec<Payload> {
        let alone = [
            Payload::json("1".into()),
            Payload::text(Bytes::new()),
            Payload::binary(Bytes::from_static(b"\0\xff")),
        ];
        let native = |payload: Payload| payload.with_native(Bytes::from_static(b"\x83d"));
        let empty = alone[0].clone().with_native(Bytes::new());
        alone
            .iter()
            .cloned()
            .chain(alone.iter().cloned().map(native))
            .chain([empty])
            .collect()
    }

    #[test]
    fn a_payload_comes_back_with_both_of_its_encodings() {
        for payload in payloads() {
            let (tag, bytes) = payload.to_tagged();
            assert_eq!(Payload::of_tagged(tag, bytes), Some(payload));
        }
    }

    #[test]
    fn a_payload_without_a_second_encoding_is_not_copied() {
        let payload = Payload::text("hello".into());
        let (_, bytes) = payload.to_tagged();
        assert_eq!(bytes.as_ptr(), payload.bytes().as_ptr());
    }

    #[test]
    fn bytes_that_are_cut_off_are_no_payload() {
        for payload in payloads() {
            let (tag, bytes) = payload.to_tagged();
            let own = LENGTH_BYTES + payload.bytes().len();
            let needed = payload.native().map_or(0, |_| own);
            for length in 0..needed {
                let cut = bytes.slice(..length);
                assert_eq!(Payload::of_tagged(tag, cut), None, "{length} of {needed}");
            }
        }
        for tag in [3, 0x3f, 0x43, 0x80, 0xff] {
            assert_eq!(Payload::of_tagged(tag, Bytes::from_static(&[0; 8])), None);
        }
    }
}
