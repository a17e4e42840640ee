//! A simulated peer that has the keys and breaks the rules: for tests and fuzzing.

use crate::TlsError;
use crate::connection::Received;
use crate::established::Established;
use crate::record::{ALERT, APPLICATION_DATA, HEADER_BYTES};
use crate::traffic::{Suite, TAG_BYTES, TrafficKeys};

pub(crate) const SUITE: Suite = Suite::Chacha20Poly1305Sha256;

/// A server, and a peer that seals whatever it likes.
#[derive(Debug)]
pub struct Peer {
    pub(crate) send: TrafficKeys,
    pub(crate) receive: TrafficKeys,
    pub(crate) server: Established,
    /// What the server has read.
    pub plaintext: Vec<u8>,
    /// What the server has answered.
    pub reply: Vec<u8>,
}

impl Default for Peer {
    fn default() -> Self {
        Self::after(0)
    }
}

impl Peer {
    /// Returns a server whose keys have sealed this number of records, and its peer.
    pub(crate) fn after(records: u64) -> Self {
        let keys = |byte, sequence| {
            let mut keys = TrafficKeys::new(SUITE, &[byte; 32]).expect("the suite's length");
            keys.set_sequence(sequence);
            keys
        };
        Self {
            send: keys(1, 0),
            receive: keys(2, records),
            server: Established::new(SUITE, keys(2, records), keys(1, 0), false),
            plaintext: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Returns a record whose inner plaintext, with content type and padding, is `inner`.
    pub fn record(&mut self, inner: &[u8]) -> Vec<u8> {
        let payload = u16::try_from(inner.len() + TAG_BYTES).expect("a short record");
        let [high, low] = payload.to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, high, low];
        let mut text = inner.to_vec();
        let cipher = self.send.cipher(SUITE).expect("a cipher");
        let tag = self.send.seal(&cipher, &header, &mut text).expect("a tag");
        [&header[..], &text, &tag].concat()
    }

    /// Changes the keys that the peer seals with.
    pub fn update(&mut self) {
        self.send.update(SUITE).expect("new keys");
    }

    /// Gives the server ciphertext.
    ///
    /// # Errors
    ///
    /// What the server finds wrong.
    pub fn take(&mut self, ciphertext: &[u8]) -> Result<Received, TlsError> {
        let (plaintext, reply) = (&mut self.plaintext, &mut self.reply);
        self.server.receive(ciphertext, plaintext, reply)
    }

    /// The fatal alert that the server has answered with, if it has answered.
    ///
    /// # Panics
    ///
    /// When the answer is anything else.
    pub fn alert(&mut self) -> Option<u8> {
        let record = self.reply.clone();
        match (!record.is_empty()).then(|| self.open(&record))?.as_slice() {
            &[2, alert, ALERT] => Some(alert),
            text => panic!("not a fatal alert: {text:?}"),
        }
    }

    /// Opens a record of the server: its content and its type.
    ///
    /// # Panics
    ///
    /// When the record is not authentic.
    pub(crate) fn open(&mut self, record: &[u8]) -> Vec<u8> {
        let (header, payload) = record.split_at(HEADER_BYTES);
        let mut text = vec![0; payload.len() - TAG_BYTES];
        let cipher = self.receive.cipher(SUITE).expect("a cipher");
        let opened = self.receive.open(&cipher, header, payload, &mut text);
        opened.expect("an authentic record");
        text
    }
}
