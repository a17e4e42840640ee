//! Reassembly of large messages, whose fragments may alternate with those of other senders.

use std::collections::HashMap;

use crate::limits::{MESSAGE_BYTES_MAX, SEQUENCES_MAX};
use crate::refusal::Refusal;

/// A fragment that is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RefusedFragment {
    pub(crate) refusal: Refusal,
    /// The beginning of its message, if that is too large: it may name a caller.
    pub(crate) beginning: Vec<u8>,
}

impl From<Refusal> for RefusedFragment {
    fn from(refusal: Refusal) -> Self {
        let beginning = Vec::new();
        Self { refusal, beginning }
    }
}

/// The incomplete messages of one connection.
#[derive(Debug, Default)]
pub(crate) struct FragmentAssembler {
    open: HashMap<u64, Open>,
    /// The bytes of all of them.
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    /// The number of the last fragment that arrived. Numbers count down to one.
    last: u64,
    /// The bytes so far; `None` if the message is too large, so that the rest of it is dropped.
    bytes: Option<Vec<u8>>,
}

impl FragmentAssembler {
    /// Bytes held of incomplete messages, at most [`MESSAGE_BYTES_MAX`].
    pub(crate) const fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the first fragment. Returns the message if it is the only one.
    ///
    /// # Errors
    ///
    /// When there is no room for it, or a message with this number is in progress.
    pub(crate) fn start_message(
        &mut self,
        sequence: u64,
        number: u64,
        piece: &[u8],
    ) -> Result<Option<Vec<u8>>, RefusedFragment> {
        if number == 1 {
            return Ok(Some(piece.to_vec()));
        }
        if number == 0 || self.open.contains_key(&sequence) {
            return Err(Refusal::Message.into());
        }
        if self.open.len() == SEQUENCES_MAX {
            return Err(Refusal::TooLarge.into());
        }
        let is_kept = self.bytes + piece.len() <= MESSAGE_BYTES_MAX;
        self.bytes += if is_kept { piece.len() } else { 0 };
        let open = Open {
            last: number,
            bytes: is_kept.then(|| piece.to_vec()),
        };
        self.open.insert(sequence, open);
        if is_kept {
            Ok(None)
        } else {
            Err(RefusedFragment {
                refusal: Refusal::TooLarge,
                beginning: piece.to_vec(),
            })
        }
    }

    /// Takes a further fragment. Returns the message if it is the last one.
    ///
    /// # Errors
    ///
    /// When there is no room for it, or it is out of order.
    pub(crate) fn continue_message(
        &mut self,
        sequence: u64,
        number: u64,
        piece: &[u8],
    ) -> Result<Option<Vec<u8>>, RefusedFragment> {
        let Some(open) = self.open.get_mut(&sequence) else {
            return Err(Refusal::Message.into());
        };
        let follows = number != 0 && number + 1 == open.last;
        open.last = number;
        let mut refusal = None;
        if let Some(bytes) = &mut open.bytes {
            if follows && self.bytes + piece.len() <= MESSAGE_BYTES_MAX {
                bytes.extend(piece);
                self.bytes += piece.len();
            } else {
                self.bytes -= bytes.len();
                let beginning = open.bytes.take().unwrap_or_default();
                refusal = Some(match follows {
                    true => RefusedFragment {
                        refusal: Refusal::TooLarge,
                        beginning,
                    },
                    false => Refusal::Message.into(),
                });
            }
        }
        let mut whole = None;
        if number <= 1 {
            whole = self.open.remove(&sequence).and_then(|open| open.bytes);
            self.bytes -= whole.as_ref().map_or(0, Vec::len);
        }
        refusal.map_or(Ok(whole), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_several_messages_may_alternate() {
        let mut fragments = FragmentAssembler::default();
        assert_eq!(fragments.start_message(7, 3, b"ab"), Ok(None));
        assert_eq!(fragments.start_message(8, 2, b"12"), Ok(None));
        assert_eq!(fragments.continue_message(7, 2, b"cd"), Ok(None));
        assert_eq!(
            fragments.continue_message(8, 1, b"34"),
            Ok(Some(b"1234".to_vec()))
        );
        assert_eq!(
            fragments.continue_message(7, 1, b"ef"),
            Ok(Some(b"abcdef".to_vec()))
        );
        assert_eq!(
            fragments.start_message(7, 1, b"gh"),
            Ok(Some(b"gh".to_vec()))
        );
        assert!(fragments.open.is_empty());
        assert_eq!(fragments.bytes, 0);
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_once_and_leaves_nothing() {
        let piece = vec![0; 64 * 1024];
        let count = (MESSAGE_BYTES_MAX / piece.len()) as u64 + 10;
        let mut fragments = FragmentAssembler::default();
        let mut refusals = Vec::new();
        refusals.extend(fragments.start_message(1, count, &piece).err());
        for number in (1..count).rev() {
            refusals.extend(fragments.continue_message(1, number, &piece).err());
            assert!(fragments.bytes <= MESSAGE_BYTES_MAX);
        }
        let [refused] = &refusals[..] else {
            panic!("it is refused once: {refusals:?}");
        };
        assert_eq!(refused.refusal, Refusal::TooLarge);
        assert_eq!(refused.beginning.len(), MESSAGE_BYTES_MAX);
        assert!(fragments.open.is_empty());
        assert_eq!(fragments.bytes, 0);
    }

    #[test]
    fn pieces_that_do_not_follow_are_refused() {
        let mut fragments = FragmentAssembler::default();
        assert_eq!(
            fragments.continue_message(1, 1, b""),
            Err(Refusal::Message.into())
        );
        assert_eq!(
            fragments.start_message(1, 0, b""),
            Err(Refusal::Message.into())
        );
        assert_eq!(fragments.start_message(1, 5, b"a"), Ok(None));
        assert_eq!(
            fragments.start_message(1, 5, b"a"),
            Err(Refusal::Message.into())
        );
        assert_eq!(
            fragments.continue_message(1, 2, b"b"),
            Err(Refusal::Message.into())
        );
        assert_eq!(fragments.continue_message(1, 1, b"c"), Ok(None));
        assert!(fragments.open.is_empty());
        for sequence in 0..SEQUENCES_MAX as u64 {
            assert_eq!(fragments.start_message(sequence, 2, b""), Ok(None));
        }
        assert_eq!(
            fragments.start_message(u64::MAX, 2, b""),
            Err(Refusal::TooLarge.into())
        );
    }
}
