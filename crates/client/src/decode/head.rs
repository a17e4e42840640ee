//! The head of a response: status line and fields, parsed in place.

use super::Malformed;
use super::framing::Framing;

/// Longest head that a server may send. Encke's are a few hundred bytes; some proxies add
/// kilobytes.
pub const HEAD_MAX: usize = 64 * 1024;

/// A complete response head, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The status code.
    pub status: u16,
    /// Whether the server spoke HTTP/1.1 (or said 1.0).
    pub persistent: bool,
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    /// Parses the head at the start of `input`. Returns it and its length in bytes, or `None` while
    /// it is incomplete.
    ///
    /// # Errors
    ///
    /// When the head is longer than [`HEAD_MAX`], or a line of it is malformed.
    pub fn parse(input: &'a [u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some(end) = find(input, b"\r\n\r\n") else {
            return if input.len() > HEAD_MAX {
                Err(Malformed::HeadTooLong)
            } else {
                Ok(None)
            };
        };
        let line_end = find(input, b"\r\n").expect("the end of the head holds one");
        let (status, persistent) = status_line(&input[..line_end])?;
        let fields = if line_end == end {
            &[][..]
        } else {
            &input[line_end + 2..end]
        };
        let head = Self {
            status,
            persistent,
            fields,
        };
        if head.lines().any(|line| !line.contains(&b':')) {
            return Err(Malformed::Field);
        }
        Ok(Some((head, end + 4)))
    }

    /// Returns the value of the first field with this name, which is compared without case.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.lines().find_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let (field, value) = line.split_at(colon);
            if !field.eq_ignore_ascii_case(name.as_bytes()) {
                return None;
            }
            std::str::from_utf8(&value[1..]).ok().map(str::trim)
        })
    }

    /// Returns how the body that follows is delimited.
    ///
    /// # Errors
    ///
    /// When a `Content-Length` is not a number.
    pub fn framing(&self) -> Result<Framing, Malformed> {
        if matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Framing::length(0));
        }
        if self
            .get("transfer-encoding")
            .is_some_and(|coding| coding.to_ascii_lowercase().ends_with("chunked"))
        {
            return Ok(Framing::chunked());
        }
        match self.get("content-length") {
            Some(length) => Ok(Framing::length(number(length).ok_or(Malformed::Length)?)),
            None => Ok(Framing::until_close()),
        }
    }

    /// Returns whether the server will close the connection after this response.
    pub fn closes(&self) -> bool {
        match self.get("connection") {
            Some(value) if value.eq_ignore_ascii_case("close") => true,
            Some(value) if value.eq_ignore_ascii_case("keep-alive") => false,
            _ => !self.persistent,
        }
    }

    fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.fields
            .split(|&byte| byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
    }
}

fn status_line(line: &[u8]) -> Result<(u16, bool), Malformed> {
    let line = std::str::from_utf8(line).map_err(|_| Malformed::StatusLine)?;
    let rest = line.strip_prefix("HTTP/1.").ok_or(Malformed::StatusLine)?;
    let (version, rest) = rest.split_once(' ').ok_or(Malformed::StatusLine)?;
    let code = rest.split(' ').next().unwrap_or("");
    match (version, number(code)) {
        ("0" | "1", Some(status @ 100..=999)) if code.len() == 3 => {
            Ok((status as u16, version == "1"))
        }
        _ => Err(Malformed::StatusLine),
    }
}

/// Parses a number of digits alone, without a plus sign.
fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        TRANSFER-ENCODING:  chunked \r\nX-Accel-Buffering: no\r\n\r\n";

    #[test]
    fn a_head_is_read_once_it_is_whole_and_not_before() {
        for at in 0..HEAD.len() {
            assert_eq!(Head::parse(&HEAD[..at]), Ok(None), "cut at byte {at}");
        }
        let followed = [HEAD, b"body"].concat();
        let (head, used) = Head::parse(&followed).unwrap().unwrap();
        assert_eq!((head.status, used), (200, HEAD.len()));
        assert_eq!(head.get("x-accel-buffering"), Some("no"));
        assert_eq!(head.get("missing"), None);
        assert_eq!(head.framing(), Ok(Framing::chunked()));
        assert!(!head.closes());
    }

    #[test]
    fn a_body_is_framed_as_its_head_says() {
        let framing = |head: &[u8]| Head::parse(head).unwrap().unwrap().0.framing();
        assert_eq!(
            framing(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n"),
            Ok(Framing::length(12))
        );
        assert_eq!(
            framing(b"HTTP/1.0 200 OK\r\n\r\n"),
            Ok(Framing::until_close())
        );
        assert_eq!(
            framing(b"HTTP/1.1 204 No Content\r\n\r\n"),
            Ok(Framing::length(0))
        );
        for bad in ["many", "+5", "-5", "5 5", ""] {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bad}\r\n\r\n");
            assert_eq!(framing(head.as_bytes()), Err(Malformed::Length), "{bad}");
        }
    }

    #[test]
    fn what_is_not_http_is_said_to_be_malformed() {
        let error = |head: &[u8]| Head::parse(head).unwrap_err();
        assert_eq!(error(b"SSH-2.0-OpenSSH\r\n\r\n"), Malformed::StatusLine);
        for bad in ["2000", "+12", "099", "0200", "20", "2x0", ""] {
            let head = format!("HTTP/1.1 {bad} OK\r\n\r\n");
            assert_eq!(error(head.as_bytes()), Malformed::StatusLine, "{bad}");
        }
        assert_eq!(
            error(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
            Malformed::Field
        );
        assert_eq!(error(&vec![b'x'; HEAD_MAX + 1]), Malformed::HeadTooLong);
    }
}
