//! The last head that was understood. Clients say the same again and again, byte for byte, and to see
//! that costs a tenth of understanding it anew.

use wire::head::{self, Body, HeadError, Method, Request, Version};

/// Longer heads are understood anew each time.
const KNOWN_BYTES_MAX: usize = 1024;

/// What a request asks, as far as the answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) keep_alive: bool,
    pub(super) body: Body,
    pub(super) expects_continue: bool,
}

/// A head, and what it asked.
#[derive(Debug, Default)]
pub(super) struct Known(Option<(Vec<u8>, Asked)>);

impl Known {
    /// What the first head of `input` asks, and its bytes; like [`head::parse_from`].
    pub(super) fn understand(
        &mut self,
        input: &[u8],
        seen: usize,
    ) -> Result<Option<(Asked, usize)>, HeadError> {
        // What a head means depends on its own bytes alone, not on what follows.
        if let Some((head, asked)) = &self.0
            && input.starts_with(head)
        {
            return Ok(Some((*asked, head.len())));
        }
        let Some(request) = head::parse_from(input, seen)? else {
            return Ok(None);
        };
        let (asked, bytes) = (Asked::of(&request), request.consumed);
        self.keep(&input[..bytes], asked);
        Ok(Some((asked, bytes)))
    }

    fn keep(&mut self, head: &[u8], asked: Asked) {
        if head.len() > KNOWN_BYTES_MAX {
            return;
        }
        let (kept, meaning) = self.0.get_or_insert((Vec::new(), asked));
        kept.clear();
        kept.extend_from_slice(head);
        *meaning = asked;
    }
}

impl Asked {
    const fn of(request: &Request<'_>) -> Self {
        Self {
            method: request.method,
            version: request.version,
            keep_alive: request.keep_alive,
            body: request.body,
            expects_continue: request.expects_continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
    ];

    /// What somebody says who remembers nothing.
    fn afresh(input: &[u8]) -> Result<Option<(Asked, usize)>, HeadError> {
        let request = head::parse(input)?;
        Ok(request.map(|request| (Asked::of(&request), request.consumed)))
    }

    #[test]
    fn what_was_heard_before_changes_nothing() {
        for first in HEADS {
            for second in HEADS {
                for end in 0..=second.len() {
                    for rest in [&b""[..], b"\r\n", b"\n\r\n", b"GET / HTTP/1.1\r\n", b"\0"] {
                        let mut known = Known::default();
                        known.understand(first, 0).unwrap().unwrap();
                        let input = [&second[..end], rest].concat();
                        assert_eq!(known.understand(&input, 0), afresh(&input), "{input:?}");
                        // Nor does what could not be understood.
                        assert_eq!(known.understand(second, 0), afresh(second));
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_head_is_not_kept() {
        let field = format!("X: {}\r\n", "x".repeat(KNOWN_BYTES_MAX));
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        let mut known = Known::default();
        for _ in 0..2 {
            let (_, bytes) = known.understand(long.as_bytes(), 0).unwrap().unwrap();
            assert_eq!(bytes, long.len());
        }
        assert!(known.0.is_none());
    }
}
