//! Cache of the last request head. Clients send the same head again and again, byte for byte, and
//! comparing it costs a tenth of parsing it.

use wire::head::{self, Body, HeadError, Method, Request, Version};

/// Size of the longest head that is cached. Longer ones are parsed each time.
const CACHED_BYTES_MAX: usize = 1024;

/// Properties of a request that the answer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestSummary {
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) keep_alive: bool,
    pub(super) body: Body,
    pub(super) expects_continue: bool,
}

/// Last head that was parsed, and its request.
#[derive(Debug, Default)]
pub(super) struct HeadCache(Option<(Vec<u8>, RequestSummary)>);

impl HeadCache {
    /// Returns the first request in `input` and the length of its head, like [`head::parse_from`].
    ///
    /// # Errors
    ///
    /// Those of [`head::parse_from`].
    pub(super) fn parse(
        &mut self,
        input: &[u8],
        seen: usize,
    ) -> Result<Option<(RequestSummary, usize)>, HeadError> {
        // The meaning of a head depends only on its own bytes, not on those that follow.
        if let Some((head, request)) = &self.0
            && input.starts_with(head)
        {
            return Ok(Some((*request, head.len())));
        }
        let Some(request) = head::parse_from(input, seen)? else {
            return Ok(None);
        };
        let (summary, bytes) = (RequestSummary::of(&request), request.consumed);
        self.keep(&input[..bytes], summary);
        Ok(Some((summary, bytes)))
    }

    fn keep(&mut self, head: &[u8], request: RequestSummary) {
        if head.len() > CACHED_BYTES_MAX {
            return;
        }
        let (kept, summary) = self.0.get_or_insert((Vec::new(), request));
        kept.clear();
        kept.extend_from_slice(head);
        *summary = request;
    }
}

impl RequestSummary {
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

    /// Returns the result without a cache.
    fn afresh(input: &[u8]) -> Result<Option<(RequestSummary, usize)>, HeadError> {
        let request = head::parse(input)?;
        Ok(request.map(|request| (RequestSummary::of(&request), request.consumed)))
    }

    #[test]
    fn an_earlier_head_changes_no_result() {
        for first in HEADS {
            for second in HEADS {
                for end in 0..=second.len() {
                    for rest in [&b""[..], b"\r\n", b"\n\r\n", b"GET / HTTP/1.1\r\n", b"\0"] {
                        let mut cache = HeadCache::default();
                        cache.parse(first, 0).unwrap().unwrap();
                        let input = [&second[..end], rest].concat();
                        assert_eq!(cache.parse(&input, 0), afresh(&input), "{input:?}");
                        // Nor does a head that could not be parsed.
                        assert_eq!(cache.parse(second, 0), afresh(second));
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_head_is_not_kept() {
        let field = format!("X: {}\r\n", "x".repeat(CACHED_BYTES_MAX));
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        let mut cache = HeadCache::default();
        for _ in 0..2 {
            let (_, bytes) = cache.parse(long.as_bytes(), 0).unwrap().unwrap();
            assert_eq!(bytes, long.len());
        }
        assert!(cache.0.is_none());
    }
}
