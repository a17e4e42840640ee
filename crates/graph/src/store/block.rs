//! A block: a run of neighbouring pairs in one value.
//!
//! Owns how pairs become bytes. A pair is two keys in one number, the owner above the other end;
//! within a direction all pairs stand in one ascending sequence, cut into blocks. A block begins
//! with the owner, as a difference from the owner of the block's own key, and goes on with the
//! owner's others as differences, a zero, the next owner as a difference, and so on; a first other
//! is a difference from -1, so that no difference is zero. All numbers are varints: seven bits a
//! byte, low ones first, the highest bit set in all bytes but the last.

/// Owner and other end of one edge, seen in one direction.
pub(crate) type Pair = u64;

/// The longest block: it fills one page of redb together with its row, 16 bytes.
pub(super) const BLOCK_BYTES_MAX: usize = if cfg!(test) { 256 } else { 4096 - 16 };

/// The longest encoding of a pair whose owner is new: a zero and two varints of up to five bytes.
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

/// Bytes that are not a block. Found in a file whose checksums are right, so a bug, not a fault of
/// the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// A block in the making. Reused for one block after another.
#[derive(Debug, Default)]
pub(super) struct Packer {
    key: Pair,
    owner: u32,
    /// The last other; [`NO_OTHER`] before the first.
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

    /// Whether one more pair certainly fits into `limit` bytes.
    pub(super) fn fits(&self, limit: usize) -> bool {
        self.bytes.len() + PAIR_BYTES_MAX <= limit
    }

    /// Appends a pair, which lies above the last and not below the key.
    pub(super) fn push(&mut self, pair: Pair) {
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
    let mut reader = Reader { bytes };
    let mut at = owner(key);
    let mut first = true;
    loop {
        let step = reader.varint()?;
        if !first && step == 0 {
            return Err(Malformed);
        }
        first = false;
        at = u32::try_from(u64::from(at) + step).map_err(|_| Malformed)?;
        let mut last = NO_OTHER;
        loop {
            if reader.bytes.is_empty() && last != NO_OTHER {
                return Ok(());
            }
            let step = reader.varint()?;
            if step == 0 && last != NO_OTHER {
                break;
            }
            let other = last.wrapping_add(step);
            let other = u32::try_from(other).map_err(|_| Malformed)?;
            if step == 0 || pair(at, other) < key {
                return Err(Malformed);
            }
            last = u64::from(other);
            each(pair(at, other));
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    /// At most 33 bits: what is longer is no difference of two keys.
    fn varint(&mut self) -> Result<u64, Malformed> {
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
