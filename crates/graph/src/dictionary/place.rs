//! Places of the dictionary, which store ids. A place takes its text and six bytes; one with a UUID
//! takes 22 bytes, and one with an integer 14.

use crate::id::Id;

/// Places allocated together.
const CHUNK: usize = 64;

/// Bytes of the position of a place's end, at the beginning of its chunk.
const END: usize = 2;

/// Bytes of the positions of all ends of a chunk.
const ENDS: usize = CHUNK * END;

/// Bytes that a chunk keeps for the next ids when ids have left it.
const SPARE: usize = 128;

/// Bytes in front of the id of a place: its kind and its references.
const HEAD: usize = 4;

/// Length of a UUID as text.
const UUID_TEXT: usize = 36;

/// Positions of the hyphens in a UUID as text.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

const _: () = assert!(ENDS + CHUNK * (HEAD + crate::id::ID_BYTES_MAX) <= u16::MAX as usize);

/// What a place stores, in the two highest bits of its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// A text.
    Text = 0,
    /// A UUID in lower case (RFC 9562, section 4), stored as 128 bits.
    Uuid = 1,
    /// An integer that is not its own key.
    Integer = 2,
    /// Nothing: it is free, in quarantine before reuse. In place of the references it has the
    /// number of the place that was freed after it.
    Free = 3,
}

/// Number of references, at least one. A number that has reached the maximum never changes again,
/// so the id is kept for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct References(u32);

impl References {
    pub(super) const ONE: Self = Self(1);

    /// The largest number beside a kind.
    const MAX: u32 = u32::MAX >> 2;

    /// Creates a number of references; `None` for zero.
    pub(super) fn new(number: u64) -> Option<Self> {
        let kept = u32::try_from(number).unwrap_or(Self::MAX);
        (number > 0).then(|| Self(kept.min(Self::MAX)))
    }

    pub(super) fn add(&mut self) {
        self.0 = (self.0 + 1).min(Self::MAX);
    }

    /// Removes `number` references. Returns whether any is left.
    pub(super) fn take(&mut self, number: u64) -> bool {
        if self.0 == Self::MAX {
            return true;
        }
        debug_assert!(u64::from(self.0) >= number, "released more often than held");
        self.0 = self
            .0
            .saturating_sub(u32::try_from(number).unwrap_or(u32::MAX));
        self.0 > 0
    }
}

/// An id, borrowed from wherever its text is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name<'a> {
    Integer(u64),
    Text(&'a str),
}

impl<'a> Name<'a> {
    pub(super) fn of(id: &'a Id) -> Self {
        match id {
            Id::Integer(integer) => Self::Integer(*integer),
            Id::Text(text) => Self::Text(text),
        }
    }
}

/// Returns the kind of the place of an id, and its content there. `bits` is where that of a UUID or
/// of an integer is made.
fn content_of<'a>(id: &'a Id, bits: &'a mut [u8; 16]) -> (Kind, &'a [u8]) {
    let text = match id {
        Id::Text(text) => text.as_bytes(),
        Id::Integer(integer) => {
            bits[..8].copy_from_slice(&integer.to_le_bytes());
            return (Kind::Integer, &bits[..8]);
        }
    };
    match parse_uuid(text) {
        None => (Kind::Text, text),
        Some(uuid) => {
            *bits = uuid;
            (Kind::Uuid, bits)
        }
    }
}

/// Places one behind the other, in one allocation: first where each ends.
struct Chunk(Vec<u8>);

impl Chunk {
    /// Makes an empty one, with memory for as much as the last one has.
    fn after(last: Option<&Self>) -> Self {
        let bytes = last.map_or(ENDS, |last| last.0.len());
        let mut chunk = Vec::with_capacity(bytes);
        chunk.resize(ENDS, 0);
        Self(chunk)
    }

    fn end(&self, nth: usize) -> usize {
        let at = nth * END;
        u16::from_le_bytes([self.0[at], self.0[at + 1]]).into()
    }

    fn set_end(&mut self, nth: usize, end: usize) {
        let end = u16::try_from(end).expect("a chunk of the longest ids has fewer bytes");
        self.0[nth * END..][..END].copy_from_slice(&end.to_le_bytes());
    }

    fn start(&self, nth: usize) -> usize {
        match nth {
            0 => ENDS,
            _ => self.end(nth - 1),
        }
    }

    /// Returns the kind of a place, and the number beside it.
    fn head(&self, nth: usize) -> (Kind, u32) {
        let at = self.start(nth);
        let bytes = [self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]];
        let head = u32::from_le_bytes(bytes);
        let kind = match head >> 30 {
            0 => Kind::Text,
            1 => Kind::Uuid,
            2 => Kind::Integer,
            _ => Kind::Free,
        };
        (kind, head & References::MAX)
    }

    fn set_head(&mut self, nth: usize, kind: Kind, number: u32) {
        debug_assert!(
            number <= References::MAX,
            "the number leaves two bits for the kind"
        );
        let head = (kind as u32) << 30 | number;
        let at = self.start(nth);
        self.0[at..at + HEAD].copy_from_slice(&head.to_le_bytes());
    }

    fn content(&self, nth: usize) -> &[u8] {
        &self.0[self.start(nth) + HEAD..self.end(nth)]
    }

    /// Adds a place behind `nth` others.
    fn push(&mut self, nth: usize, kind: Kind, number: u32, content: &[u8]) {
        let bytes = self.0.len() + HEAD + content.len();
        if bytes > self.0.capacity() {
            self.0.reserve_exact(bytes + SPARE - self.0.len());
        }
        self.0.extend([0; HEAD]);
        self.0.extend(content);
        self.set_end(nth, self.0.len());
        self.set_head(nth, kind, number);
        if nth + 1 == CHUNK {
            self.0.shrink_to_fit();
        }
    }

    /// Replaces the content of a place, and moves those behind it, of `places` in all.
    fn replace(&mut self, nth: usize, places: usize, content: &[u8]) {
        let (start, end) = (self.start(nth) + HEAD, self.end(nth));
        let (before, after) = (end - start, content.len());
        if before == after {
            return self.0[start..end].copy_from_slice(content);
        }
        self.0.reserve_exact(after.saturating_sub(before));
        self.0.splice(start..end, content.iter().copied());
        if self.0.capacity() - self.0.len() > 2 * SPARE {
            self.0.shrink_to(self.0.len() + SPARE);
        }
        for behind in nth..places {
            let end = self.end(behind) - before + after;
            self.set_end(behind, end);
        }
    }
}

/// Places by number. They are stored in chunks, so that growing copies nothing.
#[derive(Default)]
pub(super) struct Places {
    /// Chunks, all full except the last.
    chunks: Vec<Chunk>,
    places: usize,
}

impl Places {
    /// In place of the number of a place, where there is none.
    pub(super) const NOWHERE: u32 = References::MAX;

    /// Returns the number of places.
    pub(super) const fn len(&self) -> usize {
        self.places
    }

    /// Returns the chunk of a place, and its number there, if it exists.
    fn find(&self, place: u32) -> Option<(&Chunk, usize)> {
        let place = place as usize;
        let chunk = (place < self.places).then(|| &self.chunks[place / CHUNK]);
        Some((chunk?, place % CHUNK))
    }

    /// Returns the chunk of a place that must exist.
    fn chunk(&mut self, place: u32) -> (&mut Chunk, usize) {
        let place = place as usize;
        (&mut self.chunks[place / CHUNK], place % CHUNK)
    }

    /// Calls `with` with the id of a place; with `None` if it is free or does not exist.
    pub(super) fn name<R>(&self, place: u32, with: impl FnOnce(Option<Name<'_>>) -> R) -> R {
        let Some((chunk, nth)) = self.find(place) else {
            return with(None);
        };
        let content = chunk.content(nth);
        let mut uuid = [0; UUID_TEXT];
        let bytes = match chunk.head(nth).0 {
            Kind::Free => return with(None),
            Kind::Integer => {
                let bytes = content.try_into().expect("an integer has eight bytes");
                return with(Some(Name::Integer(u64::from_le_bytes(bytes))));
            }
            Kind::Uuid => {
                write_uuid(content, &mut uuid);
                &uuid
            }
            Kind::Text => content,
        };
        let text = str::from_utf8(bytes);
        debug_assert!(text.is_ok(), "a place has the text that it was given");
        with(Some(Name::Text(text.unwrap_or_default())))
    }

    /// Returns the id of a place, if it has one.
    pub(super) fn id(&self, place: u32) -> Option<Id> {
        self.name(place, |name| match name? {
            Name::Integer(integer) => Some(Id::Integer(integer)),
            Name::Text(text) => Some(Id::Text(text.into())),
        })
    }

    /// Returns whether a place has this id.
    pub(super) fn has_id(&self, place: u32, id: &Id) -> bool {
        self.name(place, |name| name == Some(Name::of(id)))
    }

    /// Changes the references of a place, unless it is free or does not exist.
    pub(super) fn change<R>(
        &mut self,
        place: u32,
        change: impl FnOnce(&mut References) -> R,
    ) -> Option<R> {
        let (chunk, nth) = self.find(place)?;
        let (kind, number) = chunk.head(nth);
        if kind == Kind::Free {
            return None;
        }
        let mut references = References(number);
        let changed = change(&mut references);
        let (chunk, nth) = self.chunk(place);
        chunk.set_head(nth, kind, references.0);
        Some(changed)
    }

    /// Adds a place after all others.
    fn push_content(&mut self, kind: Kind, number: u32, content: &[u8]) {
        let nth = self.places % CHUNK;
        if nth == 0 {
            self.chunks.push(Chunk::after(self.chunks.last()));
        }
        self.places += 1;
        let last = self.chunks.len() - 1;
        self.chunks[last].push(nth, kind, number, content);
    }

    /// Adds a place with an id after all others.
    pub(super) fn push(&mut self, id: &Id, references: References) {
        let mut bits = [0; 16];
        let (kind, content) = content_of(id, &mut bits);
        self.push_content(kind, references.0, content);
    }

    /// Adds a free place after all others.
    pub(super) fn push_free(&mut self) {
        self.push_content(Kind::Free, Self::NOWHERE, &[]);
    }

    /// Changes what a place has, and returns the number beside its kind before.
    fn set(&mut self, place: u32, kind: Kind, number: u32, content: &[u8]) -> u32 {
        let in_chunk = (self.places - place as usize / CHUNK * CHUNK).min(CHUNK);
        let (chunk, nth) = self.chunk(place);
        let (_, before) = chunk.head(nth);
        chunk.replace(nth, in_chunk, content);
        chunk.set_head(nth, kind, number);
        before
    }

    /// Frees a place. `next` is the place that is freed after it.
    pub(super) fn free(&mut self, place: u32, next: u32) {
        debug_assert!(next <= Self::NOWHERE);
        self.set(place, Kind::Free, next, &[]);
    }

    /// Stores an id in a place, which must be free. Returns the next free place.
    pub(super) fn reuse(&mut self, place: u32, id: &Id, references: References) -> u32 {
        debug_assert!(self.id(place).is_none(), "only free places are reused");
        let mut bits = [0; 16];
        let (kind, content) = content_of(id, &mut bits);
        self.set(place, kind, references.0, content)
    }
}

/// Returns the bits of a UUID in lower case; `None` if the text is something else.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != UUID_TEXT || UUID_HYPHENS.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut bits = [0; 16];
    let is_hyphen = |at: &usize| UUID_HYPHENS.contains(at);
    let digits = (0..UUID_TEXT).filter(|at| !is_hyphen(at));
    for (nth, at) in digits.enumerate() {
        let digit = match text[at] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        bits[nth / 2] = bits[nth / 2] << 4 | digit;
    }
    Some(bits)
}

fn write_uuid(bits: &[u8], text: &mut [u8; UUID_TEXT]) {
    let mut digits = bits.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    for (at, byte) in text.iter_mut().enumerate() {
        *byte = match UUID_HYPHENS.contains(&at) {
            true => b'-',
            false => digits
                .next()
                .map_or(b'-', |it| b"0123456789abcdef"[usize::from(it)]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0192fe3c-7a1b-7cde-8f00-0123456789ab";

    fn text(text: &str) -> Id {
        Id::Text(text.into())
    }

    #[test]
    fn a_place_returns_the_id_that_was_stored() {
        let upper = UUID.to_uppercase();
        let shifted = "0192fe3c7-a1b-7cde-8f00-0123456789ab";
        let long = "x".repeat(128);
        let texts = [
            "a",
            "sixteen bytes xx",
            "ünïcödé",
            UUID,
            &upper,
            shifted,
            &long,
        ];
        let mut ids: Vec<_> = texts.map(text).into();
        ids.extend([Id::Integer(1 << 50), Id::Integer(u64::MAX)]);
        let mut places = Places::default();
        for id in &ids {
            places.push(id, References::ONE);
        }
        for (place, id) in (0..).zip(&ids) {
            assert_eq!(places.id(place).as_ref(), Some(id));
            for other in &ids {
                assert_eq!(places.has_id(place, other), other == id, "{other} for {id}");
            }
        }
        let bytes = |place| places.chunks[0].content(place).len();
        assert_eq!([bytes(0), bytes(3), bytes(4), bytes(5)], [1, 16, 36, 36]);
        assert_eq!(places.id(ids.len() as u32), None);
    }

    #[test]
    fn places_are_freed_and_reused_by_longer_and_shorter_ids() {
        let mut places = Places::default();
        let mut ids = Vec::new();
        let mut dice = simulated::Dice::new(7);
        let mut name = |number: usize| match dice.roll(4) {
            0 => Id::Integer(number as u64),
            1 => text(&format!("{:08x}{}", number, &UUID[8..])),
            _ => text(&format!("{number}{}", "x".repeat(dice.roll(120)))),
        };
        for number in 0..5 * CHUNK / 2 {
            ids.push(name(number));
            places.push(&ids[number], References::ONE);
        }
        for number in ids.len()..5000 {
            let at = number * 31 % ids.len();
            places.free(at as u32, at as u32 + 1);
            assert_eq!(places.id(at as u32), None);
            assert_eq!(places.change(at as u32, |_| ()), None);
            ids[at] = name(number);
            let references = References::new(number as u64).unwrap();
            assert_eq!(places.reuse(at as u32, &ids[at], references), at as u32 + 1);
            assert_eq!(places.change(at as u32, |it| *it), Some(references));
            for beside in [0, at.saturating_sub(1), at, (at + 1).min(ids.len() - 1)] {
                assert_eq!(places.id(beside as u32).as_ref(), Some(&ids[beside]));
            }
        }
        for (place, id) in (0..).zip(&ids) {
            assert_eq!(places.id(place).as_ref(), Some(id));
        }
        for place in 0..ids.len() as u32 {
            places.free(place, Places::NOWHERE);
        }
        let kept = places.chunks.iter().map(|it| it.0.capacity());
        let bare = places.chunks.len() * (ENDS + CHUNK * HEAD + 2 * SPARE);
        assert!(kept.sum::<usize>() <= bare, "bytes of ids that have gone");
    }

    #[test]
    fn references_at_the_maximum_are_kept_for_ever() {
        assert_eq!(References::new(0), None);
        let mut three = References::new(3).unwrap();
        assert!(three.take(2));
        three.add();
        assert!(three.take(1) && !three.take(1));
        let mut most = References::new(u64::MAX).unwrap();
        assert!(most.take(u64::from(u32::MAX)) && most.take(1));
        most.add();
        let mut places = Places::default();
        places.push(&text("a"), most);
        assert_eq!(places.id(0), Some(text("a")), "its kind is not changed");
    }
}
