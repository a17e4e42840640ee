//! Frames of a client to messages.
//!
//! A message that arrives whole in one frame is unmasked where it lies and borrowed. Only what has
//! not arrived whole is kept, so the decoder of an idle connection holds nothing and need not
//! exist. What is kept grows as bytes arrive, never by what a header announces.

use std::borrow::Cow;
use std::mem;

use super::header::{self, CLIENT_HEADER_BYTES_MAX, Header, Opcode};
use super::{Close, FrameError, close};

/// Most bytes of a message of a client by default: the largest event that a client may publish.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Most fragments of a message by default. Libraries send a message in one frame, or in fragments
/// of a few KiB; smaller ones cost more to read than they carry.
pub const FRAGMENTS_MAX: u32 = 128;

/// Limits on a message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of its payload.
    pub message_bytes: usize,
    /// Most frames that it comes in.
    pub fragments: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES_MAX,
            fragments: FRAGMENTS_MAX,
        }
    }
}

/// Message of a client, or one of its control frames. Borrowed from the input if it arrived whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// A text message.
    Text(Cow<'a, str>),
    /// A binary message.
    Binary(Cow<'a, [u8]>),
    /// A ping, to be answered by a pong with the same payload (RFC 6455, section 5.5.2).
    Ping(Cow<'a, [u8]>),
    /// A pong.
    Pong(Cow<'a, [u8]>),
    /// The end of the client's side: the code and the reason, if it gave them. Frames after it mean
    /// nothing (RFC 6455, section 5.5.1).
    Close(Option<Close<'a>>),
}

/// Decoder of one connection's frames: what has not arrived whole. Its `Debug` hides the content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Decoder {
    /// The first bytes of a header that has not arrived whole.
    head: [u8; CLIENT_HEADER_BYTES_MAX],
    head_bytes: u8,
    frame: Option<UnfinishedFrame>,
    message: Option<UnfinishedMessage>,
    /// The payload of an unfinished control frame.
    control: Vec<u8>,
}

/// Frame whose payload has not arrived whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnfinishedFrame {
    header: Header,
    /// Bytes of the payload that have arrived.
    arrived: u64,
}

/// Message whose frames have not arrived whole.
#[derive(Clone, Default, PartialEq, Eq)]
struct UnfinishedMessage {
    is_text: bool,
    fragments: u32,
    payload: Vec<u8>,
    /// Bytes of a text that are known to be UTF-8.
    valid: usize,
}

impl UnfinishedMessage {
    /// Appends a part. A text is checked as it arrives; a character may lie in two parts.
    fn add(&mut self, part: &[u8]) -> Result<(), FrameError> {
        self.payload.extend_from_slice(part);
        if !self.is_text {
            return Ok(());
        }
        match str::from_utf8(&self.payload[self.valid..]) {
            Ok(text) => self.valid += text.len(),
            Err(error) if error.error_len().is_none() => self.valid += error.valid_up_to(),
            Err(_) => return Err(FrameError::NotUtf8),
        }
        Ok(())
    }

    fn finish(self) -> Result<Message<'static>, FrameError> {
        Ok(if self.is_text {
            let text = String::from_utf8(self.payload).map_err(|_| FrameError::NotUtf8)?;
            Message::Text(Cow::Owned(text))
        } else {
            Message::Binary(Cow::Owned(self.payload))
        })
    }
}

impl Decoder {
    /// Returns whether nothing is kept: the next byte begins a message.
    pub const fn is_idle(&self) -> bool {
        self.head_bytes == 0 && self.frame.is_none() && self.message.is_none()
    }

    /// Returns the bytes of payload that are kept.
    pub fn kept_bytes(&self) -> usize {
        let message = self.message.as_ref();
        message.map_or(0, |message| message.payload.len()) + self.control.len()
    }

    /// Takes the next message from the start of `input`, which is unmasked in place. `Ok(None)`
    /// says that all of it is taken and more is needed.
    ///
    /// # Errors
    ///
    /// A [`FrameError`] as soon as the bytes so far break a rule. The decoder must not be used
    /// after it.
    ///
    /// ```
    /// use wire::websocket::{Decoder, Limits, Message};
    ///
    /// // RFC 6455, section 5.7: "Hello" in one masked frame.
    /// let mut bytes = *b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    /// let mut input = &mut bytes[..];
    /// let mut decoder = Decoder::default();
    /// let message = decoder.next(&mut input, &Limits::default());
    /// assert_eq!(message, Ok(Some(Message::Text("Hello".into()))));
    /// assert!(input.is_empty() && decoder.is_idle());
    /// ```
    pub fn next<'b>(
        &mut self,
        input: &mut &'b mut [u8],
        limits: &Limits,
    ) -> Result<Option<Message<'b>>, FrameError> {
        loop {
            let mut frame = match self.frame.take() {
                Some(frame) => frame,
                None => match self.begin_frame(input, limits)? {
                    Some(header) => UnfinishedFrame { header, arrived: 0 },
                    None => return Ok(None),
                },
            };
            let rest = frame.header.length - frame.arrived;
            let count = usize::try_from(rest).map_or(input.len(), |rest| rest.min(input.len()));
            let (part, after) = mem::take(input).split_at_mut(count);
            *input = after;
            unmask(part, frame.header.mask, frame.arrived);
            frame.arrived += count as u64;
            let is_whole = frame.arrived == frame.header.length;
            if !is_whole {
                self.frame = Some(frame);
            }
            match self.add(frame, part, is_whole)? {
                None if !is_whole => return Ok(None),
                None => {}
                message => return Ok(message),
            }
        }
    }

    /// Takes the next header, and checks it against the frames before it.
    fn begin_frame(
        &mut self,
        input: &mut &mut [u8],
        limits: &Limits,
    ) -> Result<Option<Header>, FrameError> {
        let kept = usize::from(self.head_bytes);
        let (header, bytes) = if kept == 0 {
            match header::parse(input)? {
                Some(parsed) => parsed,
                None => {
                    self.keep_head(input);
                    return Ok(None);
                }
            }
        } else {
            let count = input.len().min(CLIENT_HEADER_BYTES_MAX - kept);
            self.head[kept..kept + count].copy_from_slice(&input[..count]);
            match header::parse(&self.head[..kept + count])? {
                Some((header, bytes)) => (header, bytes - kept),
                None => {
                    self.head_bytes += count as u8;
                    *input = &mut mem::take(input)[count..];
                    return Ok(None);
                }
            }
        };
        self.head_bytes = 0;
        *input = &mut mem::take(input)[bytes..];
        self.check(&header, limits)?;
        Ok(Some(header))
    }

    /// Keeps the first bytes of a header, which are all that is left.
    fn keep_head(&mut self, input: &mut &mut [u8]) {
        let bytes = mem::take(input);
        self.head[..bytes.len()].copy_from_slice(bytes);
        self.head_bytes = bytes.len() as u8;
    }

    fn check(&mut self, header: &Header, limits: &Limits) -> Result<(), FrameError> {
        if header.opcode.is_control() {
            return Ok(());
        }
        let kept = match (&mut self.message, header.opcode) {
            (Some(message), Opcode::Continuation) => {
                message.fragments += 1;
                if message.fragments > limits.fragments {
                    return Err(FrameError::TooManyFragments);
                }
                message.payload.len()
            }
            (Some(_), _) => return Err(FrameError::ExpectedContinuation),
            (None, Opcode::Continuation) => return Err(FrameError::UnexpectedContinuation),
            (None, _) => 0,
        };
        if header.length > limits.message_bytes.saturating_sub(kept) as u64 {
            return Err(FrameError::TooBig);
        }
        Ok(())
    }

    /// Adds the unmasked bytes of a frame that have just arrived. Returns the message that is
    /// complete with them.
    fn add<'b>(
        &mut self,
        frame: UnfinishedFrame,
        part: &'b [u8],
        is_whole: bool,
    ) -> Result<Option<Message<'b>>, FrameError> {
        let Header {
            opcode, is_final, ..
        } = frame.header;
        if opcode.is_control() {
            let is_at_once = is_whole && self.control.is_empty();
            if !is_at_once {
                self.control.extend_from_slice(part);
            }
            return match is_whole {
                false => Ok(None),
                true if is_at_once => control_message(opcode, Cow::Borrowed(part)).map(Some),
                true => control_message(opcode, mem::take(&mut self.control).into()).map(Some),
            };
        }
        let is_at_once = is_whole && is_final && self.message.is_none();
        match opcode {
            Opcode::Text if is_at_once => {
                let text = str::from_utf8(part).map_err(|_| FrameError::NotUtf8)?;
                return Ok(Some(Message::Text(Cow::Borrowed(text))));
            }
            Opcode::Binary if is_at_once => {
                return Ok(Some(Message::Binary(Cow::Borrowed(part))));
            }
            _ => {}
        }
        let message = self.message.get_or_insert_with(|| UnfinishedMessage {
            is_text: opcode == Opcode::Text,
            fragments: 1,
            ..UnfinishedMessage::default()
        });
        message.add(part)?;
        if !(is_whole && is_final) {
            return Ok(None);
        }
        let message = self.message.take().unwrap_or_default();
        message.finish().map(Some)
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Decoder({} bytes)", self.kept_bytes())
    }
}

fn control_message(opcode: Opcode, payload: Cow<'_, [u8]>) -> Result<Message<'_>, FrameError> {
    Ok(match opcode {
        Opcode::Ping => Message::Ping(payload),
        Opcode::Pong => Message::Pong(payload),
        _ => Message::Close(close::parse(payload)?),
    })
}

/// Removes the mask from a part of a payload that begins at `offset` (RFC 6455, section 5.3).
fn unmask(part: &mut [u8], mut mask: [u8; 4], offset: u64) {
    mask.rotate_left((offset % 4) as usize);
    let mut words = part.chunks_exact_mut(4);
    let word = u32::from_ne_bytes(mask);
    for chunk in &mut words {
        let bytes: &mut [u8; 4] = chunk.try_into().expect("a chunk of four");
        *bytes = (u32::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= mask;
    }
}
