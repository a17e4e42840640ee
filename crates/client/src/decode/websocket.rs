//! The client side of WebSocket (RFC 6455): checks the handshake, reads frames of the server,
//! writes frames of the client.
//!
//! Keeps no byte of a message, only the payload of a control frame. Does not know extensions, and
//! does not check the UTF-8 of text messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::Malformed;
use super::head::Head;
use crate::random::Random;

/// Text that a server appends to the key before it hashes it (RFC 6455, section 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Longest payload of a control frame (RFC 6455, section 5.5).
const CONTROL_MAX: u64 = 125;

/// Longest header of a frame that is not masked: two bytes and a length of eight.
const HEADER_MAX: usize = 10;

/// Mask of all frames. Masks protect proxies from scripts of hostile pages (RFC 6455, section
/// 10.3); there are none here, so it need not be random.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Close code when a frame carries none (RFC 6455, section 7.4.1).
pub const NO_STATUS: u16 = 1005;

/// Opcode of a frame (RFC 6455, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Continues the message of an earlier frame.
    Continuation = 0,
    /// Begins a text message.
    Text = 1,
    /// Begins a binary message.
    Binary = 2,
    /// Closes the connection.
    Close = 8,
    /// Asks the peer for a pong.
    Ping = 9,
    /// Answers a ping.
    Pong = 10,
}

impl Kind {
    const fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// A decoded element of the server's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Some bytes of a message.
    Bytes(&'a [u8]),
    /// The end of the message.
    MessageEnd,
    /// A ping, which [`Reader::answer_ping`] answers.
    Ping,
    /// A pong.
    Pong,
    /// A close frame with this code, which [`Reader::answer_close`] answers. Nothing follows it.
    Close(u16),
}

/// Decoder of one connection's frames after the handshake. Lives as long as the connection.
#[derive(Debug, Default)]
pub struct Reader {
    /// Bytes of the frame's payload that have not arrived yet.
    remaining: u64,
    /// Payload of the current or the last control frame.
    control: Box<[u8]>,
    header: [u8; HEADER_MAX],
    header_length: u8,
    /// The current frame; `None` while its header is incomplete.
    frame: Option<Frame>,
    /// Whether a message has begun whose last frame has not.
    in_message: bool,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    kind: Kind,
    is_last: bool,
}

impl Reader {
    /// Reads the next piece from `input`, and advances `input` past it. Returns `None` if more
    /// input is needed.
    ///
    /// # Errors
    ///
    /// When a frame breaks RFC 6455, for instance because it is masked.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Malformed> {
        loop {
            let Some(frame) = self.frame else {
                if !self.header_byte(input)? {
                    return Ok(None);
                }
                continue;
            };
            let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX);
            let (bytes, rest) = input.split_at(wanted.min(input.len()));
            *input = rest;
            self.remaining -= bytes.len() as u64;
            if frame.kind.is_control() {
                let end = self.control.len() - self.remaining as usize;
                self.control[end - bytes.len()..end].copy_from_slice(bytes);
                if self.remaining > 0 {
                    return Ok(None);
                }
                self.frame = None;
                return self.control_piece(frame.kind).map(Some);
            }
            if !bytes.is_empty() {
                return Ok(Some(Piece::Bytes(bytes)));
            }
            if self.remaining > 0 {
                return Ok(None);
            }
            self.frame = None;
            if frame.is_last {
                return Ok(Some(Piece::MessageEnd));
            }
        }
    }

    /// Takes the payload of the control frame that [`Reader::next`] returned last. Idle clients do
    /// not keep the payload of a ping that way.
    pub fn take_control(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.control)
    }

    /// Appends the pong that answers the ping that [`Reader::next`] returned last.
    pub fn answer_ping(&mut self, out: &mut Vec<u8>) {
        push_frame(Kind::Pong, &self.take_control(), out);
    }

    /// Appends the close frame that answers the one that [`Reader::next`] returned last.
    pub fn answer_close(&mut self, out: &mut Vec<u8>) {
        let payload = self.take_control();
        push_frame(Kind::Close, payload.get(..2).unwrap_or(&[]), out);
    }

    /// Reads a byte of a header. Returns false if there is no input.
    fn header_byte(&mut self, input: &mut &[u8]) -> Result<bool, Malformed> {
        let Some((&byte, rest)) = input.split_first() else {
            return Ok(false);
        };
        *input = rest;
        self.header[usize::from(self.header_length)] = byte;
        self.header_length += 1;
        let header = &self.header[..usize::from(self.header_length)];
        if let Some(length) = payload_length(header) {
            self.begin(length)?;
        }
        Ok(true)
    }

    /// Begins the frame whose header is complete.
    fn begin(&mut self, length: u64) -> Result<(), Malformed> {
        let [first, second, ..] = self.header;
        self.header_length = 0;
        let kind = Kind::of(first & 0x0f).ok_or(Malformed::Frame)?;
        let is_last = first & 0x80 != 0;
        if first & 0x70 != 0 {
            return Err(Malformed::Frame);
        }
        if second & 0x80 != 0 {
            return Err(Malformed::Masked);
        }
        if kind.is_control() {
            if !is_last || length > CONTROL_MAX {
                return Err(Malformed::Control);
            }
            self.control = vec![0; length as usize].into();
        } else {
            if (kind == Kind::Continuation) != self.in_message {
                return Err(Malformed::Frame);
            }
            self.in_message = !is_last;
        }
        self.remaining = length;
        self.frame = Some(Frame { kind, is_last });
        Ok(())
    }

    fn control_piece<'a>(&self, kind: Kind) -> Result<Piece<'a>, Malformed> {
        Ok(match (kind, &self.control[..]) {
            (Kind::Ping, _) => Piece::Ping,
            (Kind::Close, []) => Piece::Close(NO_STATUS),
            (Kind::Close, [_]) => return Err(Malformed::Control),
            (Kind::Close, [high, low, ..]) => Piece::Close(u16::from_be_bytes([*high, *low])),
            _ => Piece::Pong,
        })
    }
}

/// Returns the payload's length, once `header` is complete.
fn payload_length(header: &[u8]) -> Option<u64> {
    match (*header.get(1)? & 0x7f, &header[2..]) {
        (126, [high, low]) => Some(u16::from_be_bytes([*high, *low]).into()),
        (127, long) => long.try_into().map(u64::from_be_bytes).ok(),
        (126, _) => None,
        (length, _) => Some(length.into()),
    }
}

/// Appends a frame of the client to `out`, masked as RFC 6455 requires. `payload` is at most 125
/// bytes: these clients only answer control frames.
fn push_frame(kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
    let length = u8::try_from(payload.len()).expect("answers are control frames");
    out.extend_from_slice(&[0x80 | kind as u8, 0x80 | length]);
    out.extend_from_slice(&MASK);
    let masked = payload.iter().zip(MASK.iter().cycle());
    out.extend(masked.map(|(byte, mask)| byte ^ mask));
}

/// Returns a `Sec-WebSocket-Key`, which differs for each `seed` and `number`.
pub fn key(seed: u64, number: u32) -> String {
    let mut random = Random::seeded(seed ^ u64::from(number).rotate_right(32));
    let nonce = [random.bits().to_ne_bytes(), random.bits().to_ne_bytes()];
    BASE64.encode(nonce.as_flattened())
}

/// Returns the `Sec-WebSocket-Accept` for `key`.
pub fn accept(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::from(key);
    hash.update(KEY_SUFFIX);
    BASE64.encode(hash.digest().bytes())
}

/// Checks that `head`, whose status is 101, opens a WebSocket for `key`.
///
/// # Errors
///
/// When `Upgrade`, `Connection` or `Sec-WebSocket-Accept` has another value.
pub fn check(head: &Head<'_>, key: &str) -> Result<(), Malformed> {
    let names = |field: &str, wanted: &str| {
        let value = head.get(field).unwrap_or("");
        let mut tokens = value.split(',').map(str::trim);
        tokens.any(|token| token.eq_ignore_ascii_case(wanted))
    };
    let opens = names("upgrade", "websocket")
        && names("connection", "upgrade")
        && head.get("sec-websocket-accept") == Some(&accept(key));
    opens.then_some(()).ok_or(Malformed::Handshake)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages, and control frames as text.
    fn read(pieces: &[&[u8]]) -> Result<Vec<String>, Malformed> {
        let (mut reader, mut seen, mut message) = (Reader::default(), Vec::new(), Vec::new());
        for piece in pieces {
            let mut input = *piece;
            while let Some(piece) = reader.next(&mut input)? {
                match piece {
                    Piece::Bytes(bytes) => message.extend_from_slice(bytes),
                    Piece::MessageEnd => {
                        let message = std::mem::take(&mut message);
                        seen.push(String::from_utf8(message).unwrap());
                    }
                    Piece::Ping => {
                        let payload = String::from_utf8_lossy(&reader.take_control()).into_owned();
                        seen.push(format!("ping {payload}"));
                    }
                    Piece::Pong => seen.push("pong".to_owned()),
                    Piece::Close(code) => seen.push(format!("close {code}")),
                }
            }
        }
        Ok(seen)
    }

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            length @ ..126 => out.push(length as u8),
            length @ ..65_536 => {
                out.push(126);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                out.push(127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(payload);
        out
    }

    #[test]
    fn frames_read_alike_at_every_split() {
        let medium = vec![b'm'; 300];
        let stream = [
            frame(0x81, b"hello"),
            frame(0x01, b"frag"),
            frame(0x89, b"there?"),
            frame(0x00, b""),
            frame(0x80, b"mented"),
            frame(0x82, b""),
            frame(0x8a, b""),
            frame(0x82, &medium),
            frame(0x88, b"\x03\xe9bye"),
        ]
        .concat();
        let expected = [
            "hello",
            "ping there?",
            "fragmented",
            "",
            "pong",
            std::str::from_utf8(&medium).unwrap(),
            "close 1001",
        ]
        .map(str::to_owned);
        assert_eq!(read(&[&stream]).unwrap(), expected);
        for at in 1..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(
                read(&[left, right]).unwrap(),
                expected,
                "split at byte {at}"
            );
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes).unwrap(), expected);
    }

    #[test]
    fn long_messages_and_empty_closes_are_read() {
        let long = vec![b'x'; 70_000];
        let seen = read(&[&frame(0x81, &long), &frame(0x88, b"")]).unwrap();
        assert_eq!((seen[0].len(), &seen[1][..]), (70_000, "close 1005"));
    }

    #[test]
    fn frames_that_a_server_must_not_send_are_refused() {
        let error = |stream: &[u8]| read(&[stream]).unwrap_err();
        assert_eq!(error(&frame(0xc1, b"")), Malformed::Frame);
        assert_eq!(error(&frame(0x83, b"")), Malformed::Frame);
        assert_eq!(error(&frame(0x80, b"")), Malformed::Frame);
        let within = [frame(0x01, b"a"), frame(0x81, b"b")].concat();
        assert_eq!(error(&within), Malformed::Frame);
        assert_eq!(error(&[0x81, 0x80, 1, 2, 3, 4]), Malformed::Masked);
        assert_eq!(error(&frame(0x09, b"")), Malformed::Control);
        assert_eq!(error(&frame(0x89, &[0; 126])), Malformed::Control);
        assert_eq!(error(&frame(0x88, b"\x03")), Malformed::Control);
    }

    #[test]
    fn a_clients_frame_is_masked() {
        let mut out = Vec::new();
        push_frame(Kind::Pong, b"Hello", &mut out);
        // The masked "Hello" of RFC 6455, section 5.7.
        let expected = [
            0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn only_the_right_answer_opens_a_websocket() {
        // Key and answer of RFC 6455, section 1.3.
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let answer = |upgrade: &str, connection: &str, accept: &str| {
            let text = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {upgrade}\r\nConnection: \
                 {connection}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            let (head, _) = Head::parse(text.as_bytes()).unwrap().unwrap();
            check(&head, key)
        };
        let right = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert_eq!(answer("WebSocket", "keep-alive, Upgrade", right), Ok(()));
        for (upgrade, connection, accept) in [
            ("h2c", "Upgrade", right),
            ("websocket", "close", right),
            ("websocket", "Upgrade", "s3pPLMBiTxaQ9kYGzzhZRbK+xOp="),
        ] {
            assert_eq!(
                answer(upgrade, connection, accept),
                Err(Malformed::Handshake)
            );
        }
    }

    #[test]
    fn keys_are_sixteen_bytes_and_differ() {
        assert_eq!(BASE64.decode(super::key(1, 2)).unwrap().len(), 16);
        assert_ne!(super::key(1, 2), super::key(1, 3));
        assert_ne!(super::key(1, 2), super::key(2, 2));
    }
}
