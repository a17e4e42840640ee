//! Keys of NATS: Ed25519 keys written in base32, with which a client proves who it is.
//!
//! Takes the place of the library of the same name, of which the client of NATS uses these few
//! functions: it brings a second implementation of Ed25519 and twenty-seven crates into the
//! program.
//!
//! The text of a key (`nkeys` of nats-io, README, *Encoding*) is base32 without padding (RFC 4648,
//! section 6) of a prefix, 32 bytes and a checksum. The prefix of a seed has two bytes: five bits
//! that say `seed`, and the prefix of its public key. The checksum is CRC-16/XMODEM of all before
//! it, little-endian.

#![forbid(unsafe_code)]

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use zeroize::Zeroizing;

/// Prefix of a seed: `S` in base32.
const SEED: u8 = 18 << 3;

/// Prefixes of public keys: account, cluster, operator, server, user, curve.
const PUBLIC: [u8; 6] = [0, 2 << 3, 14 << 3, 13 << 3, 20 << 3, 23 << 3];

/// Bytes of a seed and of a public key.
const KEY_BYTES: usize = 32;

/// Bytes of a text of a seed before it is encoded: prefixes, key, checksum.
const SEED_BYTES: usize = 2 + KEY_BYTES + 2;

/// A private key, with its public key.
#[derive(Debug)]
pub struct KeyPair {
    /// Prefix of the public key.
    kind: u8,
    keys: Ed25519KeyPair,
}

/// Reason why a text is not a seed. It never has the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The text is not base32, or not of the length of a seed.
    NotASeed,
    /// The checksum differs: a letter is wrong.
    Checksum,
    /// The first letters name no kind of seed.
    Kind,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotASeed => "expected the seed of an nkey: 58 letters and digits, the first an S",
            Self::Checksum => "the checksum of the nkey's seed is wrong: a letter differs",
            Self::Kind => "the nkey's seed is of no known kind; a user's seed begins with SU",
        })
    }
}

impl std::error::Error for Error {}

impl KeyPair {
    /// Reads the text of a seed.
    ///
    /// # Errors
    ///
    /// When the text is not a seed.
    pub fn from_seed(text: &str) -> Result<Self, Error> {
        let bytes = Zeroizing::new(decode(text.as_bytes()).ok_or(Error::NotASeed)?);
        if bytes.len() != SEED_BYTES {
            return Err(Error::NotASeed);
        }
        let (body, checksum) = bytes.split_at(SEED_BYTES - 2);
        if crc16(body).to_le_bytes() != checksum {
            return Err(Error::Checksum);
        }
        // Five bits say that it is a seed; the eight bits behind them are the prefix of its kind.
        let kind = body[0] << 5 | body[1] >> 3;
        if body[0] & 0xf8 != SEED || !PUBLIC.contains(&kind) {
            return Err(Error::Kind);
        }
        let keys = Ed25519KeyPair::from_seed_unchecked(&body[2..]).map_err(|_| Error::NotASeed)?;
        Ok(Self { kind, keys })
    }

    /// Signs `message`: 64 bytes (RFC 8032, section 5.1.6).
    ///
    /// # Errors
    ///
    /// Never: the library whose place this takes could fail here.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.keys.sign(message).as_ref().to_vec())
    }

    /// Returns the text of the public key.
    pub fn public_key(&self) -> String {
        let mut bytes = vec![self.kind];
        bytes.extend_from_slice(self.keys.public_key().as_ref());
        bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
        encode(&bytes)
    }
}

/// Letters of base32 (RFC 4648, section 6).
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Decodes base32 without padding. Bits that fill no byte must be zero.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut buffer, mut bits) = (0_u32, 0);
    for &letter in text {
        let value = LETTERS.iter().position(|&it| it == letter)?;
        buffer = buffer << 5 | u32::try_from(value).ok()?;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits & 0xff) as u8);
        }
        buffer &= (1 << bits) - 1;
    }
    (bits < 5 && buffer == 0).then_some(bytes)
}

/// Encodes as base32 without padding.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut buffer, mut bits) = (0_u32, 0);
    for &byte in bytes {
        buffer = buffer << 8 | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(LETTERS[(buffer >> bits & 31) as usize]));
        }
        buffer &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(LETTERS[(buffer << (5 - bits) & 31) as usize]));
    }
    text
}

/// CRC-16/XMODEM: polynomial 0x1021, from zero, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u16::from(byte) << 8, |sum, _| {
            let carry = sum & 0x8000 != 0;
            sum << 1 ^ if carry { 0x1021 } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    /// The seed of a user that NATS documents.
    const USER: &str = "SUAIO3FHUX5PNV2LQIIP7TZ3N4L7TX3W53MQGEIVYFIGA635OZCKEYHFLM";

    #[test]
    fn a_seed_signs_what_its_public_key_verifies() {
        let pair = KeyPair::from_seed(USER).unwrap();
        let public = pair.public_key();
        assert!(public.starts_with('U') && public.len() == 56, "{public}");
        let bytes = decode(public.as_bytes()).unwrap();
        let key = UnparsedPublicKey::new(&ED25519, &bytes[1..=KEY_BYTES]);
        let signature = pair.sign(b"nonce").unwrap();
        assert_eq!(signature.len(), 64);
        key.verify(b"nonce", &signature).unwrap();
        assert!(key.verify(b"other", &signature).is_err());
    }

    #[test]
    fn a_seed_with_one_other_letter_is_refused() {
        for at in 0..USER.len() {
            let mut text = USER.as_bytes().to_vec();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(text).unwrap();
            assert!(KeyPair::from_seed(&text).is_err(), "{text}");
        }
        for text in [
            "",
            "S",
            "SU",
            &USER[1..],
            &format!("{}A", USER),
            "sua",
            "ÄÖ",
        ] {
            assert_eq!(
                KeyPair::from_seed(text).err(),
                Some(Error::NotASeed),
                "{text}"
            );
        }
        // A public key is no seed.
        let public = KeyPair::from_seed(USER).unwrap().public_key();
        assert!(KeyPair::from_seed(&public).is_err());
        assert!(!format!("{:?}", KeyPair::from_seed(USER)).contains(USER));
    }

    #[test]
    fn a_seed_of_an_unknown_kind_is_refused() {
        let mut bytes = decode(USER.as_bytes()).unwrap();
        bytes[1] = 0xf8;
        bytes.truncate(SEED_BYTES - 2);
        bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
        assert_eq!(KeyPair::from_seed(&encode(&bytes)).err(), Some(Error::Kind));
    }

    #[test]
    fn base32_and_the_checksum_are_those_of_their_documents() {
        // RFC 4648, section 10.
        for (plain, text) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        for text in ["M", "MZ=", "mzxq", "M1", "MZX", "MZ"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }
}
