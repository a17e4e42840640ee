//! Reassembly of large messages, whose fragments may alternate with those of other senders.

use std::collections::HashMap;

use crate::limits::{MESSAGE_BYTES_MAX, SEQUENCES_MAX};
use crate::refusal::Refusal;

/// A refused fragment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RefusedFragment {
    pub(crate) refusal: Refusal,
    /// The beginning of its message, which may name a caller. Empty for a fragment of a message
    /// that is not held.
    pub(crate) beginning: Vec<u8>,
}

/// The incomplete messages of one connection.
#[derive(Debug, Default)]
pub(crate) struct FragmentAssembler {
    open: HashMap<u64, Open>,
    /// The bytes of all of them.
    bytes: usize,
    /// Lists that are read piecewise, whose fragments are not kept: the number of the last fragment
    /// that arrived.
    lists: HashMap<u64, u64>,
}

#[derive(Debug)]
struct Open {
    /// The number of the last fragment that arrived. Numbers count down to one.
    last: u64,
    /// The bytes so far; `None` if the message is too large, so that the rest of it is dropped.
    bytes: Option<Vec<u8>>,
}

impl FragmentAssembler {
    /// Returns the bytes held of incomplete messages, at most [`MESSAGE_BYTES_MAX`].
    pub(crate) const fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the first fragment of a message. Returns the message if it has only one.
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
        let refused = |refusal| RefusedFragment {
            refusal,
            beginning: piece.to_vec(),
        };
        self.check_start(sequence, number).map_err(refused)?;
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
            Err(refused(Refusal::TooLarge))
        }
    }

    fn check_start(&self, sequence: u64, number: u64) -> Result<(), Refusal> {
        if number == 0 || self.open.contains_key(&sequence) || self.lists.contains_key(&sequence) {
            Err(Refusal::Message)
        } else if self.open.len() + self.lists.len() >= SEQUENCES_MAX {
            Err(Refusal::TooLarge)
        } else {
            Ok(())
        }
    }

    /// Records the first of several fragments of a list that is read piecewise.
    ///
    /// # Errors
    ///
    /// When there is no room for it, or a message with this number is in progress.
    pub(crate) fn start_list(&mut self, sequence: u64, number: u64) -> Result<(), Refusal> {
        self.check_start(sequence, number)?;
        self.lists.insert(sequence, number);
        Ok(())
    }

    /// Records a further fragment of a list that is read piecewise, and returns whether it is the
    /// last one. Returns `None` if it belongs to no such list.
    ///
    /// # Errors
    ///
    /// When it is out of order. The rest of the list is dropped.
    pub(crate) fn continue_list(
        &mut self,
        sequence: u64,
        number: u64,
    ) -> Option<Result<bool, Refusal>> {
        let last = self.lists.get_mut(&sequence)?;
        let follows = number != 0 && number + 1 == *last;
        *last = number;
        let is_last = number <= 1;
        if is_last || !follows {
            self.lists.remove(&sequence);
        }
        if !follows && !is_last {
            let (last, bytes) = (number, None);
            self.open.insert(sequence, Open { last, bytes });
        }
        Some(if follows {
            Ok(is_last)
        } else {
            Err(Refusal::Message)
        })
    }

    /// Adds a further fragment. Returns the message if it is the last one.
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
            return Err(RefusedFragment {
                refusal: Refusal::Message,
                beginning: Vec::new(),
            });
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
                refusal = Some(RefusedFragment {
                    refusal: match follows {
                        true => Refusal::TooLarge,
                        false => Refusal::Message,
                    },
                    beginning: open.bytes.take().unwrap_or_default(),
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

    fn refused(refusal: Refusal, beginning: &[u8]) -> RefusedFragment {
        let beginning = beginning.to_vec();
        RefusedFragment { refusal, beginning }
    }

    #[test]
    fn fragments_of_several_messages_may_alternate() {
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
    fn fragments_of_a_list_are_counted_but_not_kept() {
        let mut fragments = FragmentAssembler::default();
        assert_eq!(fragments.start_list(7, 3), Ok(()));
        assert_eq!(fragments.start_list(7, 3), Err(Refusal::Message));
        assert_eq!(fragments.start_message(8, 2, b"12"), Ok(None));
        assert_eq!(fragments.continue_list(8, 1), None);
        assert_eq!(fragments.continue_list(7, 2), Some(Ok(false)));
        assert_eq!(fragments.continue_list(7, 1), Some(Ok(true)));
        assert_eq!(fragments.start_list(7, 9), Ok(()));
        // The rest of a list that is out of order is dropped without a further refusal.
        assert_eq!(fragments.continue_list(7, 3), Some(Err(Refusal::Message)));
        assert_eq!(fragments.continue_list(7, 2), None);
        assert_eq!(fragments.continue_message(7, 2, b""), Ok(None));
        assert_eq!(fragments.continue_message(7, 1, b""), Ok(None));
        assert_eq!(fragments.bytes, 2);
        assert!(fragments.lists.is_empty() && fragments.open.len() == 1);
        for sequence in 10..9 + SEQUENCES_MAX as u64 {
            assert_eq!(fragments.start_list(sequence, 2), Ok(()));
        }
        assert_eq!(fragments.start_list(9, 2), Err(Refusal::TooLarge));
    }

    #[test]
    fn fragments_out_of_order_are_refused_with_the_beginning_of_their_message() {
        let mut fragments = FragmentAssembler::default();
        assert_eq!(
            fragments.continue_message(1, 1, b"a"),
            Err(refused(Refusal::Message, b""))
        );
        assert_eq!(
            fragments.start_message(1, 0, b"a"),
            Err(refused(Refusal::Message, b"a"))
        );
        assert_eq!(fragments.start_message(1, 5, b"a"), Ok(None));
        assert_eq!(
            fragments.start_message(1, 5, b"b"),
            Err(refused(Refusal::Message, b"b"))
        );
        assert_eq!(fragments.continue_message(1, 4, b"c"), Ok(None));
        assert_eq!(
            fragments.continue_message(1, 2, b"d"),
            Err(refused(Refusal::Message, b"ac"))
        );
        assert_eq!(fragments.continue_message(1, 1, b"e"), Ok(None));
        assert!(fragments.open.is_empty());
        assert_eq!(fragments.bytes, 0);
        for sequence in 0..SEQUENCES_MAX as u64 {
            assert_eq!(fragments.start_message(sequence, 2, b""), Ok(None));
        }
        assert_eq!(
            fragments.start_message(u64::MAX, 2, b"a"),
            Err(refused(Refusal::TooLarge, b"a"))
        );
    }
}
