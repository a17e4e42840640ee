//! Bytes that a node is owed: packets, appended whole and sent in any pieces.

/// Begins a message without header, of terms behind their versions.
const PASS_THROUGH: u8 = 112;
/// Begins a message with a header without atoms, of bare terms.
const HEADER: [u8; 3] = [131, 68, 0];
const VERSION: u8 = 131;

/// A buffer that has grown beyond this is given back when all of it is sent.
const KEPT_BYTES: usize = 64 * 1024;

/// Packets for one connection.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    bytes: Vec<u8>,
    sent: usize,
    /// How the peer reads messages: with a header, if it takes fragments.
    has_header: bool,
}

impl SendBuffer {
    /// Where the handshake writes.
    pub(crate) const fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) const fn set_header(&mut self, has_header: bool) {
        self.has_header = has_header;
    }

    /// Bytes that are not sent.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is to be sent next.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// So much of it is sent.
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

    /// An empty packet: a sign of life.
    pub(crate) fn tick(&mut self) {
        self.bytes.extend([0; 4]);
    }

    /// A control message.
    pub(crate) fn control(&mut self, control: impl FnOnce(&mut Vec<u8>)) {
        self.packet(control, None::<fn(&mut Vec<u8>)>);
    }

    /// A control message and its payload.
    pub(crate) fn message(
        &mut self,
        control: impl FnOnce(&mut Vec<u8>),
        payload: impl FnOnce(&mut Vec<u8>),
    ) {
        self.packet(control, Some(payload));
    }

    fn packet(
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
