//! URLs of servers, and percent-encoding of ids in paths.

use std::net::{SocketAddr, ToSocketAddrs};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use machine::failure::{Failure, Outcome};

/// An `http://` or `https://` URL: the address of a server, and a path.
///
/// ```
/// use client::http::Url;
///
/// let url = Url::parse("http://127.0.0.1:8000/events/42?id=news").unwrap();
/// assert_eq!((url.authority(), url.path()), ("127.0.0.1:8000", "/events/42?id=news"));
/// assert_eq!(Url::parse("localhost").unwrap().path(), "/");
/// assert!(Url::parse("https://localhost").unwrap().is_secure());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    is_secure: bool,
    authority: String,
    host: String,
    port: u16,
    path: String,
}

impl Url {
    /// Reads `http://host[:port][/path]` or the same with `https`; a bare `host:port` is `http`.
    ///
    /// # Errors
    ///
    /// When the scheme is another, the host is empty, or the port is not a number below 65,536.
    pub fn parse(text: &str) -> Outcome<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let (is_secure, default_port) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => {
                return Err(Failure::new(format!(
                    "`{text}` is a {scheme} address, and only http:// and https:// work here"
                )));
            }
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| {
                    Failure::new(format!(
                        "`{text}` has no valid port: write http://host:port"
                    ))
                })?;
                (host, port)
            }
            _ => (authority, default_port),
        };
        if host.is_empty() {
            return Err(Failure::new(format!(
                "`{text}` names no host: write http://host:port"
            )));
        }
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Ok(Self {
            is_secure,
            authority: authority.to_owned(),
            host,
            port,
            path: path.to_owned(),
        })
    }

    /// Returns whether the server is reached over TLS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Name or address of the host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `host:port` as written.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the first address of the host.
    ///
    /// # Errors
    ///
    /// When the host has no address.
    pub fn resolve(&self) -> Outcome<SocketAddr> {
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| Failure::new(format!("no address is known for host `{}`", self.host)))
    }
}

/// All but the characters that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes `text` as one segment of a path.
pub fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_people_write_them() {
        let url = Url::parse("http://127.0.0.1:8000/events/{n}?a=b").unwrap();
        assert_eq!(
            (url.authority(), url.path()),
            ("127.0.0.1:8000", "/events/{n}?a=b")
        );
        assert_eq!(Url::parse("localhost:8001").unwrap().path(), "/");
        assert_eq!(
            Url::parse("http://[::1]:80")
                .unwrap()
                .resolve()
                .unwrap()
                .port(),
            80
        );
        assert!(
            Url::parse("ftp://x")
                .unwrap_err()
                .to_string()
                .contains("only http:// and https://")
        );
        let secure = Url::parse("https://[::1]/events/rj").unwrap();
        assert!(secure.is_secure() && !url.is_secure());
        assert_eq!((secure.host(), secure.path()), ("::1", "/events/rj"));
        assert_eq!(secure.resolve().unwrap().port(), 443);
        assert!(Url::parse("http://x:port/").is_err());
        assert!(Url::parse("http://:80/").is_err());
    }

    #[test]
    fn a_segment_keeps_only_what_needs_no_escape() {
        assert_eq!(encode_segment("rj-7_.~"), "rj-7_.~");
        assert_eq!(encode_segment("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }
}
