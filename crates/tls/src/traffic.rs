//! Traffic keys of TLS 1.3: one direction of a connection (RFC 8446, sections 5.3, 7.2 and 7.3).

/// Keys of tests and fuzzing.
#[cfg(any(test, fuzzing))]
mod sim;

use std::fmt;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use zeroize::Zeroize;

use crate::TlsError;

/// Length of a key of AES-256-GCM and ChaCha20-Poly1305, the longest.
const KEY_BYTES_MAX: usize = 32;

/// Length of a secret of SHA-384, the longest.
const SECRET_BYTES_MAX: usize = 48;

/// Length of an initialization vector, and of a nonce.
const IV_BYTES: usize = 12;

/// Length of the tag at the end of a sealed record.
pub(crate) const TAG_BYTES: usize = 16;

/// A cipher suite of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    Aes128GcmSha256,
    Aes256GcmSha384,
    Chacha20Poly1305Sha256,
}

impl Suite {
    fn cipher(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128GcmSha256 => &aead::AES_128_GCM,
            Self::Aes256GcmSha384 => &aead::AES_256_GCM,
            Self::Chacha20Poly1305Sha256 => &aead::CHACHA20_POLY1305,
        }
    }

    fn hash(self) -> hkdf::Algorithm {
        match self {
            Self::Aes256GcmSha384 => hkdf::HKDF_SHA384,
            Self::Aes128GcmSha256 | Self::Chacha20Poly1305Sha256 => hkdf::HKDF_SHA256,
        }
    }

    fn key_bytes(self) -> usize {
        match self {
            Self::Aes128GcmSha256 => 16,
            Self::Aes256GcmSha384 | Self::Chacha20Poly1305Sha256 => KEY_BYTES_MAX,
        }
    }

    fn secret_bytes(self) -> usize {
        match self {
            Self::Aes256GcmSha384 => SECRET_BYTES_MAX,
            Self::Aes128GcmSha256 | Self::Chacha20Poly1305Sha256 => 32,
        }
    }
}

/// Secret, key, initialization vector and record number of one direction.
///
/// The key schedule of the cipher is not kept: it takes 600 bytes, and is made anew for each use.
pub(crate) struct TrafficKeys {
    secret: [u8; SECRET_BYTES_MAX],
    key: [u8; KEY_BYTES_MAX],
    iv: [u8; IV_BYTES],
    /// Number of the next record, in network order, so that the keys need no padding.
    sequence: [u8; 8],
}

impl TrafficKeys {
    /// Keys that `rustls` has derived from `secret`, and the number of the next record.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] unless all have the lengths of the suite.
    pub(crate) fn from_parts(
        suite: Suite,
        secret: &[u8],
        (key, iv): (&[u8], &[u8]),
        sequence: u64,
    ) -> Result<Self, TlsError> {
        let fits = secret.len() == suite.secret_bytes() && key.len() == suite.key_bytes();
        if !fits || iv.len() != IV_BYTES {
            return Err(TlsError::Internal);
        }
        let mut keys = Self {
            secret: [0; SECRET_BYTES_MAX],
            key: [0; KEY_BYTES_MAX],
            iv: [0; IV_BYTES],
            sequence: sequence.to_be_bytes(),
        };
        keys.secret[..secret.len()].copy_from_slice(secret);
        keys.key[..key.len()].copy_from_slice(key);
        keys.iv.copy_from_slice(iv);
        Ok(keys)
    }

    /// Returns the number of the next record.
    pub(crate) fn sequence(&self) -> u64 {
        u64::from_be_bytes(self.sequence)
    }

    /// Sets the number of the next record.
    pub(crate) fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence.to_be_bytes();
    }

    /// Replaces the secret by its successor, as `KeyUpdate` asks, and begins with record number 0.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] when the cryptographic library fails.
    pub(crate) fn update(&mut self, suite: Suite) -> Result<(), TlsError> {
        let mut next = [0; SECRET_BYTES_MAX];
        let bytes = suite.secret_bytes();
        expand_label(suite, &self.secret, b"traffic upd", &mut next[..bytes])?;
        self.secret.copy_from_slice(&next);
        next.zeroize();
        self.expand(suite)?;
        self.set_sequence(0);
        Ok(())
    }

    /// Returns the cipher, ready for use. Callers keep it for the records of one call only.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] when the cryptographic library fails.
    pub(crate) fn cipher(&self, suite: Suite) -> Result<LessSafeKey, TlsError> {
        let key = UnboundKey::new(suite.cipher(), &self.key[..suite.key_bytes()]);
        key.map(LessSafeKey::new).map_err(|_| TlsError::Internal)
    }

    /// Encrypts `text` in place, as the next record.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] when the cryptographic library fails, or numbers are used up.
    pub(crate) fn seal(
        &mut self,
        cipher: &LessSafeKey,
        header: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], TlsError> {
        let nonce = self.next_nonce()?;
        let tag = cipher.seal_in_place_separate_tag(nonce, Aad::from(header), text);
        let tag = tag.map_err(|_| TlsError::Internal)?;
        tag.as_ref().try_into().map_err(|_| TlsError::Internal)
    }

    /// Decrypts the next record, whose payload ends with its tag, into `text`.
    ///
    /// # Errors
    ///
    /// [`TlsError::BadRecord`] when the record is not authentic, [`TlsError::Internal`] when
    /// numbers are used up.
    pub(crate) fn open(
        &mut self,
        cipher: &LessSafeKey,
        header: &[u8],
        payload: &[u8],
        text: &mut [u8],
    ) -> Result<(), TlsError> {
        let (sealed, tag) = payload.split_at(text.len());
        let nonce = self.next_nonce()?;
        let opened = cipher.open_separate_gather(nonce, Aad::from(header), sealed, tag, text);
        opened.map_err(|_| TlsError::BadRecord)
    }

    /// Returns the nonce of the next record: its number, xored into the initialization vector. No
    /// number is used twice under a key.
    fn next_nonce(&mut self) -> Result<Nonce, TlsError> {
        let mut nonce = self.iv;
        let low = nonce[IV_BYTES - self.sequence.len()..].iter_mut();
        for (byte, number) in low.zip(self.sequence) {
            *byte ^= number;
        }
        let next = self.sequence().checked_add(1).ok_or(TlsError::Internal)?;
        self.set_sequence(next);
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Derives key and initialization vector from the secret (RFC 8446, section 7.3).
    fn expand(&mut self, suite: Suite) -> Result<(), TlsError> {
        let key = &mut self.key[..suite.key_bytes()];
        expand_label(suite, &self.secret, b"key", key)?;
        expand_label(suite, &self.secret, b"iv", &mut self.iv)
    }
}

impl Drop for TrafficKeys {
    fn drop(&mut self) {
        self.secret.zeroize();
        self.key.zeroize();
        self.iv.zeroize();
    }
}

impl fmt::Debug for TrafficKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("TrafficKeys");
        out.field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}

/// `HKDF-Expand-Label` with an empty context (RFC 8446, section 7.1).
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], out: &mut [u8]) -> Result<(), TlsError> {
    const PREFIX: &[u8] = b"tls13 ";
    let length = u16::try_from(out.len())
        .map_err(|_| TlsError::Internal)?
        .to_be_bytes();
    let label_length = u8::try_from(PREFIX.len() + label.len()).map_err(|_| TlsError::Internal)?;
    let info = [&length, &[label_length][..], PREFIX, label, &[0]];
    let secret = hkdf::Prk::new_less_safe(suite.hash(), &secret[..suite.secret_bytes()]);
    let expanded = secret.expand(&info, OutputBytes(out.len()));
    expanded
        .and_then(|expanded| expanded.fill(out))
        .map_err(|_| TlsError::Internal)
}

/// How many bytes HKDF shall give.
struct OutputBytes(usize);

impl hkdf::KeyType for OutputBytes {
    fn len(&self) -> usize {
        self.0
    }
}
