//! Plaintext to TLS records, as many as one system call sends.
//!
//! A batch remembers which records complete which events, so that an event counts as written when
//! the socket took the whole of the record that its last byte is in: a peer cannot open a part.

use tls::TlsError;

use crate::limits::{FRAMES_PER_SEND, RECORDS_PER_SEND};

/// Most plaintext bytes of a record (RFC 8446, section 5.1; RFC 5246, section 6.2.1).
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 14;

/// The part of a TLS connection that a batch needs.
pub(crate) trait Seal {
    /// Appends the records of the slices, taken together, to `out`.
    ///
    /// # Errors
    ///
    /// When the connection cannot go on. Nothing is appended then.
    fn seal(&mut self, slices: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError>;
}

impl Seal for tls::Connection {
    fn seal(&mut self, slices: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        Self::seal(self, slices, out)
    }
}

/// Records made for one system call. Working memory of a worker.
#[derive(Debug, Default)]
pub(crate) struct SealedBatch {
    records: Vec<u8>,
    groups: Vec<RecordGroup>,
}

/// Consecutive records that are useful to the peer only together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordGroup {
    /// Index after its last byte.
    pub(crate) end: usize,
    /// Events whose last byte is in it.
    pub(crate) events: u32,
}

/// How far a batch reaches into the parts that it was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SealedParts {
    /// Parts that are in it to their ends.
    pub(crate) whole: usize,
    /// Bytes of the next part that are in it.
    pub(crate) offset: usize,
    /// Bytes of plaintext in it.
    pub(crate) bytes: usize,
}

impl SealedBatch {
    /// Replaces the batch by the records of the first parts, each of which may end an event. A
    /// group holds one record's worth of plaintext at most.
    ///
    /// # Errors
    ///
    /// Those of [`tls::Connection::seal`]. The connection cannot go on.
    pub(crate) fn seal<'a>(
        &mut self,
        tls: &mut impl Seal,
        mut parts: impl Iterator<Item = (&'a [u8], bool)>,
    ) -> Result<SealedParts, TlsError> {
        self.clear();
        let mut sealed = SealedParts {
            whole: 0,
            offset: 0,
            bytes: 0,
        };
        let Some(first) = parts.next() else {
            return Ok(sealed);
        };
        let second = parts.next();
        if let (part, is_event) = first
            && second.is_none()
            && part.len() <= RECORD_BYTES_MAX
        {
            // The usual case, in which the room for many slices is not even cleared.
            self.group(tls, &[part], u32::from(is_event))?;
            return Ok(SealedParts {
                whole: 1,
                offset: 0,
                bytes: part.len(),
            });
        }
        let mut slices = [&[][..]; FRAMES_PER_SEND];
        let (mut count, mut room, mut events) = (0, RECORD_BYTES_MAX, 0);
        for (part, is_event) in [first].into_iter().chain(second).chain(parts) {
            loop {
                let rest = &part[sealed.offset..];
                if count == slices.len() || (room == 0 && !rest.is_empty()) {
                    self.group(tls, &slices[..count], events)?;
                    (count, room, events) = (0, RECORD_BYTES_MAX, 0);
                    if self.groups.len() == RECORDS_PER_SEND {
                        return Ok(sealed);
                    }
                }
                let length = rest.len().min(room);
                slices[count] = &rest[..length];
                count += 1;
                room -= length;
                sealed.bytes += length;
                if length == rest.len() {
                    break;
                }
                sealed.offset += length;
            }
            events += u32::from(is_event);
            sealed.whole += 1;
            sealed.offset = 0;
        }
        self.group(tls, &slices[..count], events)?;
        Ok(sealed)
    }

    /// Replaces the batch by records that were made elsewhere.
    pub(crate) fn set(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        self.clear();
        fill(&mut self.records);
        let end = self.records.len();
        self.groups.push(RecordGroup { end, events: 0 });
    }

    fn clear(&mut self) {
        self.records.clear();
        self.groups.clear();
    }

    fn group(
        &mut self,
        tls: &mut impl Seal,
        slices: &[&[u8]],
        events: u32,
    ) -> Result<(), TlsError> {
        if slices.iter().any(|slice| !slice.is_empty()) {
            tls.seal(slices, &mut self.records)?;
        }
        let end = self.records.len();
        self.groups.push(RecordGroup { end, events });
        Ok(())
    }

    /// Returns the records.
    pub(crate) fn records(&self) -> &[u8] {
        &self.records
    }

    /// Returns the number of events that are complete with the first `taken` bytes.
    pub(crate) fn events_within(&self, taken: usize) -> usize {
        let complete = self.groups.iter().take_while(|group| group.end <= taken);
        complete.map(|group| group.events as usize).sum()
    }

    /// Returns the records from `taken` on, and their groups.
    pub(crate) fn tail(&self, taken: usize) -> (&[u8], impl Iterator<Item = RecordGroup> + '_) {
        assert!(
            taken <= self.records.len(),
            "a socket takes no more than it is given"
        );
        let rest = self.groups.iter().filter(move |group| group.end > taken);
        let groups = rest.map(move |group| RecordGroup {
            end: group.end - taken,
            ..*group
        });
        (&self.records[taken..], groups)
    }

    /// Frees working memory that grew beyond `kept` bytes.
    pub(crate) fn trim(&mut self, kept: usize) {
        if self.records.capacity() > kept {
            self.records = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a marker, a length and the plaintext, so that a test can read them.
    #[derive(Default)]
    struct Plain {
        records: usize,
    }

    impl Seal for Plain {
        fn seal(&mut self, slices: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
            let plaintext = slices.concat();
            assert!(!plaintext.is_empty(), "a record without bytes");
            assert!(plaintext.len() <= RECORD_BYTES_MAX);
            out.push(b'R');
            out.extend((plaintext.len() as u16).to_be_bytes());
            out.extend(plaintext);
            self.records += 1;
            Ok(())
        }
    }

    fn open(mut records: &[u8]) -> Vec<u8> {
        let mut plaintext = Vec::new();
        while let [b'R', high, low, rest @ ..] = records {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            plaintext.extend(&rest[..length]);
            records = &rest[length..];
        }
        assert!(records.is_empty(), "a record is cut");
        plaintext
    }

    fn parts(lengths: &[usize]) -> Vec<Vec<u8>> {
        let part = |(n, length): (usize, &usize)| vec![n as u8; *length];
        lengths.iter().enumerate().map(part).collect()
    }

    #[test]
    fn batches_hold_all_parts_in_order_and_count_each_event_at_its_end() {
        const RECORD: usize = RECORD_BYTES_MAX;
        let many = [100; 3 * FRAMES_PER_SEND];
        let cases: [&[usize]; 9] = [
            &[1],
            &[0],
            &[0, 5, 0],
            &[RECORD],
            &[RECORD + 1],
            &[RECORD, 0, 1],
            &[3 * RECORD * RECORDS_PER_SEND + 7, 2],
            &[9000, 9000, 9000, 9000, 9000, 9000],
            &many,
        ];
        for lengths in cases {
            let parts = parts(lengths);
            let mut batch = SealedBatch::default();
            let (mut at, mut offset, mut opened, mut events) = (0, 0, Vec::new(), 0);
            while at < parts.len() {
                let rest = parts[at..].iter().enumerate();
                let rest = rest.map(|(n, part)| match n {
                    0 => (&part[offset..], true),
                    _ => (&part[..], true),
                });
                let sealed = batch.seal(&mut Plain::default(), rest).unwrap();
                assert!(sealed.whole > 0 || sealed.bytes > 0, "no progress");
                let plaintext = open(batch.records());
                assert_eq!(plaintext.len(), sealed.bytes);
                assert!(plaintext.len() <= RECORDS_PER_SEND * RECORD);
                assert_eq!(batch.events_within(batch.records().len()), sealed.whole);
                opened.extend(plaintext);
                events += sealed.whole;
                offset = match sealed.whole {
                    0 => offset + sealed.offset,
                    _ => sealed.offset,
                };
                at += sealed.whole;
            }
            assert_eq!(events, parts.len());
            assert!(opened == parts.concat(), "{lengths:?}");
        }
    }

    #[test]
    fn an_event_is_complete_with_the_last_byte_of_its_record_at_every_cut() {
        let parts = parts(&[10_000, 10_000, 3, 10_000]);
        let mut batch = SealedBatch::default();
        let all = parts.iter().map(|part| (&part[..], true));
        let sealed = batch.seal(&mut Plain::default(), all).unwrap();
        assert_eq!((sealed.whole, sealed.offset), (4, 0));
        let length = batch.records().len();
        for taken in 0..=length {
            let (tail, groups) = batch.tail(taken);
            let groups: Vec<_> = groups.collect();
            let later: usize = groups.iter().map(|group| group.events as usize).sum();
            assert_eq!(batch.events_within(taken) + later, 4, "cut at {taken}");
            let end = groups.last().map_or(0, |group| group.end);
            assert_eq!(end, tail.len(), "cut at {taken}");
            let first_record = 3 + RECORD_BYTES_MAX;
            let expected = match taken {
                _ if taken < first_record => 0,
                _ if taken < length => 1,
                _ => 4,
            };
            assert_eq!(batch.events_within(taken), expected, "cut at {taken}");
        }
    }
}
