//! Connections whose records `rustls` protects: all during the handshake, afterwards those of TLS
//! 1.2, and of TLS 1.3 if that is configured.

use std::io::{IoSlice, Read, Write};

use rustls::server::ServerConnection;
use rustls::{ExtractedSecrets, HandshakeKind, ProtocolVersion};

use crate::TlsError;
use crate::connection::Received;

/// A connection of `rustls`.
pub(crate) struct Kept {
    rustls: ServerConnection,
    /// Whether the server has sent `close_notify`.
    closed: bool,
}

impl Kept {
    pub(crate) fn new(rustls: ServerConnection) -> Self {
        Self {
            rustls,
            closed: false,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.rustls.is_handshaking()
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.rustls.protocol_version()
    }

    pub(crate) fn kind(&self) -> Option<HandshakeKind> {
        self.rustls.handshake_kind()
    }

    /// Returns the secrets of a connection whose handshake is done.
    ///
    /// # Errors
    ///
    /// When the handshake is not done, or bytes wait to be sent.
    pub(crate) fn into_secrets(self) -> Result<ExtractedSecrets, TlsError> {
        Ok(self.rustls.dangerous_extract_secrets()?)
    }

    /// Processes all of `ciphertext`. Appends content to `plaintext`, and answers and alerts to
    /// `reply`.
    ///
    /// # Errors
    ///
    /// When the connection has failed. Then `reply` has the alert to send.
    pub(crate) fn receive(
        &mut self,
        mut ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        let received = self.read(&mut ciphertext, plaintext);
        self.write_to(reply);
        received
    }

    fn read(
        &mut self,
        ciphertext: &mut &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        while !ciphertext.is_empty() {
            // `rustls` reads nothing after `close_notify`, and nothing if its buffer is full.
            let read = self.rustls.read_tls(ciphertext);
            let read = read.map_err(|_| TlsError::TooLarge)?;
            let state = self.rustls.process_new_packets()?;
            let start = plaintext.len();
            plaintext.resize(start + state.plaintext_bytes_to_read(), 0);
            let content = self.rustls.reader().read_exact(&mut plaintext[start..]);
            content.map_err(|_| TlsError::Internal)?;
            if state.peer_has_closed() {
                return Ok(Received::Closed);
            }
            if read == 0 {
                return Err(TlsError::Malformed);
            }
        }
        Ok(Received::Open)
    }

    /// Appends the records that carry `slices`, one after another, to `out`.
    ///
    /// # Errors
    ///
    /// [`TlsError::Ended`] after [`close_notify`](Self::close_notify), [`TlsError::Internal`] when
    /// `rustls` takes no more.
    pub(crate) fn seal(&mut self, slices: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.closed {
            return Err(TlsError::Ended);
        }
        let slices = slices.iter().filter(|slice| !slice.is_empty());
        let mut slices: Vec<IoSlice<'_>> = slices.map(|slice| IoSlice::new(slice)).collect();
        let mut slices = slices.as_mut_slice();
        let start = out.len();
        while !slices.is_empty() {
            // Writes as much as the buffer of `rustls` takes, which is then emptied.
            match self.rustls.writer().write_vectored(slices) {
                Ok(bytes) if bytes > 0 => IoSlice::advance_slices(&mut slices, bytes),
                _ => {
                    out.truncate(start);
                    return Err(TlsError::Internal);
                }
            }
            self.write_to(out);
        }
        Ok(())
    }

    /// Appends `close_notify`, unless it was sent. Nothing can be sealed after it.
    pub(crate) fn close_notify(&mut self, out: &mut Vec<u8>) {
        if !self.closed {
            self.closed = true;
            self.rustls.send_close_notify();
            self.write_to(out);
        }
    }

    fn write_to(&mut self, out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        while self.rustls.wants_write() && self.rustls.write_tls(out).is_ok_and(|bytes| bytes > 0) {
        }
    }
}
