//! Lists of subscriptions that are too large to be held as one message: parsing of the beginning of
//! the message, and of the elements as they arrive.
//!
//! Must never decide what happens to an element.

use std::mem;

use crate::control::Control;
use crate::limits::{
    CALLER_BYTES_MAX, LIST_ELEMENT_BYTES_MAX, MESSAGE_BYTES_MAX, SUBSCRIPTIONS_MAX,
};
use crate::term::{Raw, TermError, tag};

/// What to do with the subscriptions of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListVerb {
    /// `add_subscriptions`
    Add,
    /// `remove_subscriptions`
    Remove,
}

impl ListVerb {
    /// Returns the verb of a request.
    pub(crate) fn named(name: Raw<'_>) -> Option<Self> {
        if name.is_atom("add_subscriptions") {
            Some(Self::Add)
        } else if name.is_atom("remove_subscriptions") {
            Some(Self::Remove)
        } else {
            None
        }
    }
}

/// The message of a connection that contains a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMessage {
    /// The message that arrives in a single packet. A node sends it so while the connection is
    /// being set up, or if it does not support fragments.
    Packet,
    /// A message in fragments, identified by its number.
    Fragments(u64),
}

/// The beginning of a call or cast `{add_subscriptions, List}` or `{remove_subscriptions, List}`
/// whose list is too large to be held.
#[derive(Debug)]
pub(crate) struct LargeList<'a> {
    pub(crate) message: ListMessage,
    pub(crate) control: Control<'a>,
    /// The caller; `None` for a cast.
    pub(crate) from: Option<Raw<'a>>,
    pub(crate) verb: ListVerb,
    /// Number of elements that the list claims to have.
    pub(crate) count: usize,
    /// The first bytes of the elements.
    pub(crate) piece: &'a [u8],
}

impl<'a> LargeList<'a> {
    /// Reads the first of `fragments` fragments. `None` if it does not begin such a list.
    pub(crate) fn in_fragments(sequence: u64, fragments: u64, fragment: &'a [u8]) -> Option<Self> {
        let (control, payload) = Raw::parse(fragment).ok()?;
        let bytes = fragments.saturating_mul(fragment.len() as u64);
        Self::read(ListMessage::Fragments(sequence), control, payload, bytes)
    }

    /// Reads the terms at the beginning of a packet of `size` bytes. `None` if they do not begin
    /// such a list.
    pub(crate) fn in_packet(size: usize, control: Raw<'a>, payload: &'a [u8]) -> Option<Self> {
        Self::read(ListMessage::Packet, control, payload, size as u64)
    }

    /// Reads the beginning of a message of about `bytes` bytes.
    fn read(message: ListMessage, control: Raw<'a>, payload: &'a [u8], bytes: u64) -> Option<Self> {
        let (control, true) = Control::read(control).ok()? else {
            return None;
        };
        let (from, request) = match payload {
            [tag::SMALL_TUPLE, 3, parts @ ..] => {
                let (kind, rest) = Raw::parse(parts).ok()?;
                let (from, request) = Raw::parse(rest).ok()?;
                let is_call = kind.is_atom("$gen_call") && from.bytes().len() <= CALLER_BYTES_MAX;
                (Some(is_call.then_some(from)?), request)
            }
            [tag::SMALL_TUPLE, 2, parts @ ..] => {
                let (kind, request) = Raw::parse(parts).ok()?;
                kind.is_atom("$gen_cast").then_some((None, request))?
            }
            _ => return None,
        };
        let [tag::SMALL_TUPLE, 2, request @ ..] = request else {
            return None;
        };
        let (verb, list) = Raw::parse(request).ok()?;
        let verb = ListVerb::named(verb)?;
        let &[tag::LIST, a, b, c, d, ref piece @ ..] = list else {
            return None;
        };
        let count = u32::from_be_bytes([a, b, c, d]) as usize;
        let is_large = count > SUBSCRIPTIONS_MAX || bytes > MESSAGE_BYTES_MAX as u64;
        is_large.then_some(Self {
            message,
            control,
            from,
            verb,
            count,
            piece,
        })
    }
}

/// Reader of the elements of a list, whose bytes arrive in pieces of any size.
#[derive(Debug)]
pub(crate) struct ListReader {
    /// The beginning of an incomplete element.
    held: Vec<u8>,
    /// Number of elements that are still to come.
    left: usize,
    /// Whether the empty list at the end was read.
    has_ended: bool,
}

/// The reason why bytes are not the rest of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListError {
    /// An element is malformed.
    #[error(transparent)]
    Term(#[from] TermError),
    /// An element has more than [`LIST_ELEMENT_BYTES_MAX`] bytes.
    #[error("the element has more than {LIST_ELEMENT_BYTES_MAX} bytes; an id has at most 128")]
    ElementTooLarge,
    /// The list does not end with the empty list, or bytes follow.
    #[error("the list does not end with []")]
    Improper,
}

impl ListReader {
    pub(crate) const fn new(count: usize) -> Self {
        Self {
            held: Vec::new(),
            left: count,
            has_ended: false,
        }
    }

    /// Whether the list was read to its end.
    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Passes the elements that a further piece completes to `each`, as long as it returns `true`.
    ///
    /// # Errors
    ///
    /// See [`ListError`].
    pub(crate) fn read(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(Raw<'_>) -> bool,
    ) -> Result<(), ListError> {
        let mut bytes = mem::take(&mut self.held);
        bytes.extend(piece);
        let mut rest = &*bytes;
        while self.left > 0 {
            match Raw::parse(rest) {
                Ok((element, _)) if element.bytes().len() > LIST_ELEMENT_BYTES_MAX => {
                    return Err(ListError::ElementTooLarge);
                }
                Ok((element, after)) => {
                    if !each(element) {
                        return Ok(());
                    }
                    self.left -= 1;
                    rest = after;
                }
                Err(TermError::Truncated) if rest.len() <= LIST_ELEMENT_BYTES_MAX => break,
                Err(TermError::Truncated) => return Err(ListError::ElementTooLarge),
                Err(error) => return Err(error.into()),
            }
        }
        if self.left == 0 {
            match rest {
                [] => {}
                [tag::NIL] if !self.has_ended => self.has_ended = true,
                _ => return Err(ListError::Improper),
            }
        } else {
            self.held = rest.to_vec();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
