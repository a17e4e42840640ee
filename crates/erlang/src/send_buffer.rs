//! Send buffer of a connection: packets are appended, and sent in any pieces.

/// First byte of a message without a distribution header. Its terms have version bytes.
const PASS_THROUGH: u8 = 112;
/// First bytes of a message with a distribution header without atoms. Its terms have no version
/// bytes.
const HEADER: [u8; 3] = [131, 68, 0];
const VERSION: u8 = 131;

/// Capacity that an empty buffer keeps at most.
const KEPT_BYTES: usize = 64 * 1024;

/// The send buffer of one connection.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    bytes: Vec<u8>,
    sent: usize,
    /// Whether messages have a distribution header, which peers with support for fragments expect.
    has_header: bool,
}

impl SendBuffer {
    /// Returns the buffer, for messages of the handshake.
    pub(crate) const fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) const fn set_header(&mut self, has_header: bool) {
        self.has_header = has_header;
    }

    /// Returns the number of unsent bytes.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the unsent bytes.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Removes the first `count` unsent bytes, which were sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.sent = 0;
        } else if self.sent >= self.bytes.len() / 2 && self.sent >= KEPT_BYTES {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Appends a tick: an empty packet.
    pub(crate) fn tick(&mut self) {
        self.bytes.extend([0; 4]);
    }

    /// Appends a control message, with a payload if there is one.
    pub(crate) fn packet(
        &mut self,
        control: impl FnOnce(&mut Vec<u8>),
        payload: Option<impl FnOnce(&mut Vec<u8>)>,
    ) {
        let out = &mut self.bytes;
        let start = out.len();
        out.extend([0; 4]);
        if self.has_header {
            out.extend(HEADER);
        } else {
            out.extend([PASS_THROUGH, VERSION]);
        }
        control(out);
        if let Some(payload) = payload {
            if !self.has_header {
                out.push(VERSION);
            }
            payload(out);
        }
        let size = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    }
}
