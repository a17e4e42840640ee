//! Boundaries of the requests of a connection, and the rules for their heads.
//!
//! Owns the position in the stream of requests. The rules are those of the public listener
//! ([`wire::head`]), so that both listeners refuse the same heads. Must never touch a socket.

use memchr::memchr;
use wire::head::{Body, HeadError, parse_from};

use super::chunks::{Chunks, MalformedChunk};

/// Reason why no byte after those accepted may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A head that breaks a rule. It can be answered.
    Head(HeadError),
    /// A chunked body that breaks a rule. The request it belongs to is under way.
    Chunk,
}

/// Position in the stream of requests. Lives as long as its connection.
#[derive(Debug)]
pub(super) struct Framing {
    place: Place,
    /// Complete heads so far.
    heads: u64,
}

#[derive(Debug)]
enum Place {
    /// In a head of which this many bytes were looked at.
    Head {
        seen: usize,
    },
    Sized {
        left: u64,
    },
    Chunked(Chunks),
}

impl Framing {
    pub(super) const fn new() -> Self {
        Self {
            place: Place::Head { seen: 0 },
            heads: 0,
        }
    }

    /// Returns the number of complete heads so far.
    pub(super) const fn heads(&self) -> u64 {
        self.heads
    }

    /// Returns whether the next byte begins or continues a head.
    pub(super) const fn is_in_head(&self) -> bool {
        matches!(self.place, Place::Head { .. })
    }

    /// Walks over `input`: the bytes that were not accepted before, and new ones. Returns how many
    /// are accepted, which are whole heads and parts of bodies, and whether those after them are
    /// refused. What is not accepted and not refused is the start of a head.
    pub(super) fn walk(&mut self, input: &[u8]) -> (usize, Result<(), Refusal>) {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            match &mut self.place {
                Place::Head { seen } => match parse_from(rest, *seen) {
                    Err(error) => return (at, Err(Refusal::Head(error))),
                    Ok(None) => {
                        *seen = rest.len();
                        break;
                    }
                    Ok(Some(request)) if !is_known_version(&rest[..request.consumed]) => {
                        return (at, Err(Refusal::Head(HeadError::Version)));
                    }
                    Ok(Some(request)) => {
                        at += request.consumed;
                        self.heads += 1;
                        self.place = match request.body {
                            Body::None => Place::Head { seen: 0 },
                            Body::Sized(left) => Place::Sized { left },
                            Body::Chunked => Place::Chunked(Chunks::new()),
                        };
                    }
                },
                Place::Sized { left } => {
                    let step = (*left).min(rest.len() as u64);
                    *left -= step;
                    at += step as usize;
                    if *left == 0 {
                        self.place = Place::Head { seen: 0 };
                    }
                }
                Place::Chunked(chunks) => match chunks.walk(rest) {
                    Err(MalformedChunk) => return (at, Err(Refusal::Chunk)),
                    Ok((step, ended)) => {
                        at += step;
                        if ended {
                            self.place = Place::Head { seen: 0 };
                        }
                    }
                },
            }
        }
        (at, Ok(()))
    }
}

/// Returns whether hyper knows the version of a head. The public listener takes a later 1.x for 1.1
/// (RFC 9110, section 2.5); here it would be refused without a reason.
fn is_known_version(head: &[u8]) -> bool {
    let line = head.trim_ascii_start();
    let line = &line[..memchr(b'\r', line).unwrap_or(line.len())];
    line.ends_with(b"/1.1") || line.ends_with(b"/1.0")
}

/// The table of requests that all listeners are tested with.
#[cfg(test)]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "tests of other crates include it"
)]
#[path = "../../../../harness/tests/conformance/table.rs"]
mod table;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is accepted of an input that comes in two pieces, and why the rest is refused.
    fn walk(input: &[u8], split: usize) -> (Vec<u8>, Option<Refusal>, u64) {
        let mut framing = Framing::new();
        let (mut held, mut accepted) = (Vec::new(), Vec::new());
        for piece in [&input[..split], &input[split..]] {
            held.extend_from_slice(piece);
            let (count, rest) = framing.walk(&held);
            accepted.extend(held.drain(..count));
            if let Err(refusal) = rest {
                return (accepted, Some(refusal), framing.heads());
            }
        }
        (accepted, None, framing.heads())
    }

    const PIPELINED: &[u8] = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
        POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n\
        GET /c HTTP/1.1\r\nHost: h\r\n\r\n";

    #[test]
    fn whole_requests_are_accepted_at_every_split() {
        for split in 0..=PIPELINED.len() {
            let found = walk(PIPELINED, split);
            assert_eq!(found, (PIPELINED.to_vec(), None, 3), "split at {split}");
        }
    }

    #[test]
    fn nothing_of_a_refused_head_is_accepted_at_any_split() {
        let bad =
            b"GET /d HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\nGET /e HTTP/1.1\r\nHost: h\r\n\r\n";
        let input = [PIPELINED, bad].concat();
        let refusal = Some(Refusal::Head(HeadError::HostRepeated));
        for split in 0..=input.len() {
            let found = walk(&input, split);
            assert_eq!(found, (PIPELINED.to_vec(), refusal, 3), "split at {split}");
        }
    }

    #[test]
    fn a_malformed_chunk_ends_what_is_accepted() {
        let head = b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let input = [&head[..], b"2\nxy\r\n0\r\n\r\n"].concat();
        for split in 0..=input.len() {
            let (accepted, refusal, heads) = walk(&input, split);
            assert!(accepted.starts_with(head.get(..accepted.len()).unwrap_or(head)));
            assert_eq!((refusal, heads), (Some(Refusal::Chunk), 1));
        }
    }

    /// What follows is the marker: it counts as a request only if the row ends where the table
    /// says.
    #[test]
    fn each_request_of_the_table_ends_in_one_place_at_every_split() {
        for row in table::rows() {
            let input = row.input();
            let whole = walk(&input, 0);
            for split in 1..=input.len() {
                let found = walk(&input, split);
                assert_eq!(
                    (found.1, found.2),
                    (whole.1, whole.2),
                    "{}, {split}",
                    row.name
                );
                // Of a chunked body that is refused, all of an earlier piece may be accepted.
                assert!(
                    found.0 == whole.0 || whole.1 == Some(Refusal::Chunk),
                    "{}",
                    row.name
                );
            }
            let refused = u64::from(matches!(whole.1, Some(Refusal::Head(_))));
            let is_final = |status: &&u16| **status != 100;
            let answers = row.control.statuses.iter().filter(is_final).count() as u64;
            if row.control.kept {
                assert_eq!((whole.1, whole.2), (None, answers + 1), "{}", row.name);
            } else if refused == 1 {
                assert_eq!(whole.2 + refused, answers, "{}", row.name);
            }
        }
    }

    #[test]
    fn an_unfinished_head_is_held() {
        let head = b"GET /c HTTP/1.1\r\nHost: h\r\n\r";
        assert_eq!(walk(head, 7), (Vec::new(), None, 0));
    }
}
