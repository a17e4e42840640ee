//! Records of the peer: opened, and what they say.

use aws_lc_rs::aead::LessSafeKey;

use super::{Established, KEY_UPDATES_MAX};
use crate::TlsError;
use crate::alert::Alert;
use crate::connection::Received;
use crate::record::{
    ALERT, APPLICATION_DATA, CIPHERTEXT_BYTES_MAX, EMPTY_RECORDS_MAX, HANDSHAKE, HEADER_BYTES,
    PLAINTEXT_BYTES_MAX,
};
use crate::traffic::TAG_BYTES;

/// The beginning of a `KeyUpdate` message: its type, and a length of one byte (RFC 8446, section
/// 4.6.3).
const KEY_UPDATE_START: [u8; 4] = [24, 0, 0, 1];

/// Ends the connection: the alert to send, and what the caller learns.
#[derive(Debug, PartialEq, Eq)]
struct Fatal(Option<Alert>, TlsError);

impl Fatal {
    const fn new(alert: Alert, error: TlsError) -> Self {
        Self(Some(alert), error)
    }
}

/// A message that is not allowed here.
const UNEXPECTED: Fatal = Fatal::new(Alert::UnexpectedMessage, TlsError::Malformed);

/// What a record has changed.
#[derive(Debug, PartialEq, Eq)]
enum Changed {
    Nothing,
    /// Keys to receive with.
    Keys,
}

impl Established {
    /// Opens every whole record of `ciphertext`, and keeps the beginning of one that is not whole.
    /// Content is appended to `plaintext`, an alert to `reply`.
    ///
    /// # Errors
    ///
    /// What ends the connection; `reply` then has the alert to send.
    pub(crate) fn receive(
        &mut self,
        ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        match self.open_all(ciphertext, plaintext) {
            Ok(received) => Ok(received),
            Err(Fatal(alert, error)) => {
                if let Some(alert) = alert
                    && !self.closed
                {
                    self.seal_alert(alert, reply);
                }
                Err(error)
            }
        }
    }

    fn open_all(
        &mut self,
        mut ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Received, Fatal> {
        let mut cipher = None;
        // After `close_notify` everything is ignored (RFC 8446, section 6.1).
        while !self.peer_closed {
            let record = self.partial.next(&mut ciphertext, CIPHERTEXT_BYTES_MAX);
            let record = record.map_err(|error| Fatal::new(Alert::RecordOverflow, error))?;
            let Some(record) = record else {
                return Ok(Received::Open);
            };
            let cipher_now = match &cipher {
                Some(cipher) => cipher,
                None => cipher.insert(
                    self.receive
                        .cipher(self.suite)
                        .map_err(|error| Fatal::new(Alert::InternalError, error))?,
                ),
            };
            if self.open_record(cipher_now, &record, plaintext)? == Changed::Keys {
                cipher = None;
            }
        }
        Ok(Received::Closed)
    }

    fn open_record(
        &mut self,
        cipher: &LessSafeKey,
        record: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Changed, Fatal> {
        let (header, payload) = record.split_at(HEADER_BYTES);
        if header[0] != APPLICATION_DATA {
            return Err(UNEXPECTED);
        }
        // Without a content type there is nothing that the tag could protect.
        let Some(bytes) = payload.len().checked_sub(TAG_BYTES).filter(|&it| it > 0) else {
            return Err(Fatal::new(Alert::BadRecordMac, TlsError::BadRecord));
        };
        // Content, its type and padding together (RFC 8446, section 5.4).
        if bytes > PLAINTEXT_BYTES_MAX + 1 {
            return Err(Fatal::new(Alert::RecordOverflow, TlsError::TooLarge));
        }
        let start = plaintext.len();
        plaintext.resize(start + bytes, 0);
        let text = &mut plaintext[start..];
        if self.receive.open(cipher, header, payload, text).is_err() {
            plaintext.truncate(start);
            return Err(Fatal::new(Alert::BadRecordMac, TlsError::BadRecord));
        }
        // Padding is zeroes after the content type (RFC 8446, section 5.4).
        let Some(end) = text.iter().rposition(|&byte| byte != 0) else {
            plaintext.truncate(start);
            return Err(UNEXPECTED);
        };
        let content_type = text[end];
        plaintext.truncate(start + end);
        let checked = self.check_content(content_type, end);
        if checked.is_ok() && content_type == APPLICATION_DATA {
            return Ok(Changed::Nothing);
        }
        // The rest is for this layer, and not for the caller.
        let message = checked.and_then(|()| self.take_message(content_type, &plaintext[start..]));
        plaintext.truncate(start);
        message
    }

    /// Checks what a record may carry now, by its content type and length.
    fn check_content(&mut self, content_type: u8, bytes: usize) -> Result<(), Fatal> {
        if content_type != HANDSHAKE && self.message_bytes > 0 {
            // No other record may come between the parts of a handshake message (section 5.1).
            return Err(UNEXPECTED);
        }
        match (content_type, bytes) {
            (APPLICATION_DATA, 0) => self.count_empty(),
            (APPLICATION_DATA, _) => {
                self.empty_records = 0;
                self.key_updates = 0;
                Ok(())
            }
            (ALERT, 2) | (HANDSHAKE, 1..) => Ok(()),
            (ALERT, 1 | 3..) => Err(Fatal::new(Alert::DecodeError, TlsError::Malformed)),
            _ => Err(UNEXPECTED),
        }
    }

    fn count_empty(&mut self) -> Result<(), Fatal> {
        if self.empty_records == EMPTY_RECORDS_MAX {
            return Err(Fatal::new(Alert::UnexpectedMessage, TlsError::TooLarge));
        }
        self.empty_records += 1;
        Ok(())
    }

    fn take_message(&mut self, content_type: u8, message: &[u8]) -> Result<Changed, Fatal> {
        if content_type == HANDSHAKE {
            return self.take_handshake(message);
        }
        match message[1] {
            number if number == Alert::CloseNotify as u8 => {
                self.peer_closed = true;
                Ok(Changed::Nothing)
            }
            number if number == Alert::UserCanceled as u8 => {
                self.count_empty().map(|()| Changed::Nothing)
            }
            // Any other alert is fatal, whatever its level says (section 6). It gets no answer.
            number => Err(Fatal(None, TlsError::Alert(number))),
        }
    }

    /// Takes a handshake message. Clients may send `KeyUpdate` and no other, and it must end its
    /// record, since the next one has other keys (section 5.1).
    fn take_handshake(&mut self, message: &[u8]) -> Result<Changed, Fatal> {
        for (at, &byte) in message.iter().enumerate() {
            if let Some(&expected) = KEY_UPDATE_START.get(usize::from(self.message_bytes)) {
                if byte != expected {
                    return Err(UNEXPECTED);
                }
                self.message_bytes += 1;
                continue;
            }
            if at + 1 < message.len() {
                return Err(UNEXPECTED);
            }
            if byte > 1 {
                // Neither `update_not_requested` nor `update_requested` (section 4.6.3).
                return Err(Fatal::new(Alert::IllegalParameter, TlsError::Malformed));
            }
            self.message_bytes = 0;
            return self.update_received(byte == 1);
        }
        Ok(Changed::Nothing)
    }

    fn update_received(&mut self, requested: bool) -> Result<Changed, Fatal> {
        if self.key_updates == KEY_UPDATES_MAX {
            return Err(Fatal::new(Alert::UnexpectedMessage, TlsError::TooLarge));
        }
        self.key_updates += 1;
        if requested {
            // Sent before the next data (section 4.6.3), once for any number of requests, so that a
            // peer that reads nothing cannot fill memory with answers.
            self.key_update_requested = true;
        }
        let updated = self.receive.update(self.suite);
        updated.map_err(|error| Fatal::new(Alert::InternalError, error))?;
        Ok(Changed::Keys)
    }
}
