//! A block: a run of consecutive pairs in one value.
//!
//! Owns the encoding of pairs. A pair is two keys in one number: the owner in the upper half, the
//! other end in the lower. In each direction all pairs form one ascending sequence, which is cut
//! into blocks. A block begins with the owner, as the difference from the owner in the block's own
//! key. The owner's others follow, each as the difference from the one before, then a zero, then
//! the next owner as a difference, and so on. The first other is a difference from -1, so that no
//! difference is zero. All numbers are varints: seven bits a byte, low bits first, the highest bit
//! set in all bytes but the last.

use crate::key::Key;

/// Owner and other end of one edge, seen in one direction.
pub(crate) type Pair = u64;

/// Maximum size of an encoded pair with a new owner: a zero and two varints of up to five bytes.
const PAIR_BYTES_MAX: usize = 11;

const NO_OTHER: u64 = u64::MAX;

pub(crate) const fn pair(owner: u32, other: u32) -> Pair {
    (owner as u64) << 32 | other as u64
}

pub(crate) const fn owner(pair: Pair) -> u32 {
    (pair >> 32) as u32
}

pub(crate) const fn other(pair: Pair) -> u32 {
    pair as u32
}

/// Error: the bytes are not a block. The checksums of the file were right, so the cause is a bug
/// and not the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Encoder of blocks. Reused for one block after another.
#[derive(Debug, Default)]
pub(super) struct Packer {
    key: Pair,
    owner: u32,
    /// Last other; [`NO_OTHER`] before the first.
    last: u64,
    bytes: Vec<u8>,
}

impl Packer {
    /// Begins the block that is stored under `key`.
    pub(super) fn begin(&mut self, key: Pair) {
        self.key = key;
        self.owner = owner(key);
        self.last = NO_OTHER;
        self.bytes.clear();
    }

    pub(super) const fn key(&self) -> Pair {
        self.key
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether one more pair certainly fits into `limit` bytes.
    pub(super) fn fits(&self, limit: usize) -> bool {
        self.bytes.len() + PAIR_BYTES_MAX <= limit
    }

    /// Appends a pair, which must be above the last and not below the key.
    pub(super) fn push(&mut self, pair: Pair) {
        debug_assert!(
            self.bytes.is_empty() || owner(pair) >= self.owner,
            "owners in a block ascend"
        );
        let (owner, other) = (owner(pair), u64::from(other(pair)));
        if self.bytes.is_empty() {
            push_varint(&mut self.bytes, u64::from(owner - self.owner));
            self.owner = owner;
        } else if owner != self.owner {
            self.bytes.push(0);
            push_varint(&mut self.bytes, u64::from(owner - self.owner));
            self.owner = owner;
            self.last = NO_OTHER;
        }
        push_varint(&mut self.bytes, other.wrapping_sub(self.last));
        self.last = other;
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Calls `each` with the pairs of the block under `key`, ascending.
pub(super) fn unpack(key: Pair, bytes: &[u8], mut each: impl FnMut(Pair)) -> Result<(), Malformed> {
    unpack_runs(key, bytes, &mut Vec::new(), |owner, others| {
        for other in others {
            each(pair(owner.number(), other.number()));
        }
    })
}

/// Calls `each` with every owner in the block under `key`, ascending, and its others in that block,
/// ascending and at least one. `run` is working memory, with any content.
pub(super) fn unpack_runs(
    key: Pair,
    bytes: &[u8],
    run: &mut Vec<Key>,
    mut each: impl FnMut(Key, &[Key]),
) -> Result<(), Malformed> {
    let mut reader = Reader { bytes };
    let mut at = owner(key);
    let mut least = other(key);
    let mut first = true;
    loop {
        let step = reader.varint()?;
        if !first && step == 0 {
            return Err(Malformed);
        }
        at = u32::try_from(u64::from(at) + step).map_err(|_| Malformed)?;
        if step > 0 {
            least = 0;
        }
        let ended = reader.run(run)?;
        if run.first().is_none_or(|other| other.number() < least) {
            return Err(Malformed);
        }
        each(Key::from_number(at), run);
        if ended {
            return Ok(());
        }
        first = false;
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    /// Reads the others of one owner, up to the zero behind them or the end of the block. Returns
    /// whether it was the end.
    fn run(&mut self, run: &mut Vec<Key>) -> Result<bool, Malformed> {
        run.clear();
        let mut last = NO_OTHER;
        while !self.bytes.is_empty() {
            let step = self.varint()?;
            if step == 0 {
                return Ok(false);
            }
            last = last.wrapping_add(step);
            run.push(Key::from_number(
                u32::try_from(last).map_err(|_| Malformed)?,
            ));
        }
        Ok(true)
    }

    /// Reads a varint of at most five bytes, 35 bits: a longer one is not a difference of two keys.
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Away from the end, without a branch for each byte: the processor cannot predict the
        // lengths of differences, and the whole graph is read before a server accepts clients.
        let Some(word) = self.bytes.first_chunk() else {
            return self.last_varint();
        };
        let word = u64::from_le_bytes(*word);
        let end = !word & 0x80_8080_8080;
        if end == 0 {
            return Err(Malformed);
        }
        // Keeps all bits up to the last byte, without the highest of each byte.
        let word = word & (end ^ (end - 1)) & 0x7f_7f7f_7f7f;
        let word = (word & 0x7f_007f_007f) | ((word & 0x7f00_7f00) >> 1);
        let word = (word & 0x3fff_0000_3fff) | ((word & 0x3fff_0000) >> 2);
        let number = (word & 0x0fff_ffff) | ((word & 0x7f_0000_0000) >> 4);
        self.bytes = &self.bytes[end.trailing_zeros() as usize / 8 + 1..];
        Ok(number)
    }

    fn last_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (index, &byte) in self.bytes.iter().take(5).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.bytes = &self.bytes[index + 1..];
                return Ok(number);
            }
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests;
