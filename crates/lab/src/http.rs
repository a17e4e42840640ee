//! A small blocking HTTP/1.1 client over the standard library: one connection, kept alive.
//!
//! It speaks to control listeners and to any other HTTP server. TLS is not its business.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::decode::framing::{Framing, Piece};
use crate::decode::head::Head;
use crate::failure::{Failure, Outcome};

/// Time for a connection to be accepted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of one read.
const READ_BYTES: usize = 32 * 1024;

/// An `http://` address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    authority: String,
    host: String,
    port: u16,
    path: String,
}

impl Url {
    /// Reads `http://host[:port][/path]`; a bare `host:port` is taken as one.
    pub fn parse(text: &str) -> Outcome<Self> {
        if let Some(scheme) = text.split_once("://").map(|(scheme, _)| scheme)
            && scheme != "http"
        {
            return Err(Failure::new(format!(
                "`{text}` is a {scheme} address: only http:// is spoken here; for TLS, go through \
                 a proxy"
            )));
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
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
            _ => (authority, 80),
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
            authority: authority.to_owned(),
            host,
            port,
            path: path.to_owned(),
        })
    }

    /// `host:port` as written.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The first address of the host.
    pub fn resolve(&self) -> Outcome<SocketAddr> {
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| Failure::new(format!("no address is known for host `{}`", self.host)))
    }
}

/// Percent-encodes `text` as one segment of a path.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A connection on which one request follows another.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    spent: bool,
}

/// The head of an answer, owned.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// `Content-Type`, or nothing.
    pub content_type: String,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u64>,
    framing: Framing,
    closes: bool,
}

/// The bytes of a request that follow its head.
#[derive(Debug, Clone, Copy)]
pub enum Payload<'a> {
    /// No body.
    None,
    /// These bytes.
    Bytes(&'a [u8]),
    /// Chunks, written afterwards with [`Chunks`].
    Chunked,
}

impl Connection {
    /// Connects to the host of `url`.
    pub fn open(url: &Url) -> io::Result<Self> {
        let address = url.resolve()?;
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(READ_BYTES, stream),
            host: url.authority.clone(),
            spent: false,
        })
    }

    /// Limits how long a read may wait.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(timeout)
    }

    /// Whether the server said that it closes this connection.
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Whether the server closed this connection while it stood idle.
    pub fn is_stale(&self) -> bool {
        let stream = self.stream.get_ref();
        let peeked = stream
            .set_nonblocking(true)
            .and_then(|()| stream.peek(&mut [0]))
            .map_err(|error| error.kind());
        stream.set_nonblocking(false).is_err() || peeked != Err(io::ErrorKind::WouldBlock)
    }

    /// A second handle for writing a chunked body while the answer is read here.
    pub fn chunks(&self) -> io::Result<Chunks> {
        Ok(Chunks {
            stream: self.stream.get_ref().try_clone()?,
            buffer: Vec::new(),
        })
    }

    /// Writes a request's head, and its body unless that is chunked.
    pub fn write(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        payload: Payload<'_>,
    ) -> io::Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        match payload {
            Payload::None => {}
            Payload::Bytes(bytes) => {
                request.push_str(&format!("Content-Length: {}\r\n", bytes.len()));
            }
            Payload::Chunked => request.push_str("Transfer-Encoding: chunked\r\n"),
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        if let Payload::Bytes(bytes) = payload {
            request.extend_from_slice(bytes);
        }
        self.stream.get_mut().write_all(&request)
    }

    /// Reads the head of the answer; interim ones are passed over.
    pub fn read_head(&mut self) -> io::Result<Answer> {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if self.stream.read_until(b'\n', &mut head)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            let Some((head, _)) = Head::parse(&head).map_err(malformed)? else {
                continue;
            };
            if (100..200).contains(&head.status) {
                continue;
            }
            self.spent = head.closes();
            return Ok(Answer {
                status: head.status,
                content_type: head.get("content-type").unwrap_or("").to_owned(),
                retry_after: head.get("retry-after").and_then(|value| value.parse().ok()),
                framing: head.framing().map_err(malformed)?,
                closes: head.closes(),
            });
        }
    }

    /// The body of `answer`, to be read as it comes.
    pub fn body(&mut self, answer: &Answer) -> Body<'_> {
        self.spent |= answer.closes;
        let ended = answer.framing.is_complete();
        Body {
            stream: &mut self.stream,
            framing: answer.framing,
            ended,
        }
    }

    /// A whole exchange.
    pub fn exchange(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        payload: Payload<'_>,
    ) -> io::Result<(Answer, Vec<u8>)> {
        self.write(method, path, fields, payload)?;
        let answer = self.read_head()?;
        let mut bytes = Vec::new();
        self.body(&answer).read_to_end(&mut bytes)?;
        Ok((answer, bytes))
    }
}

/// A body being read. A read that times out may be repeated.
#[derive(Debug)]
pub struct Body<'a> {
    stream: &'a mut BufReader<TcpStream>,
    framing: Framing,
    ended: bool,
}

/// What one look at a body brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Bytes were appended.
    Bytes,
    /// A chunk is complete.
    ChunkEnd,
    /// The body is complete.
    End,
}

impl Body<'_> {
    /// Appends the next part to `out`, waiting for it.
    pub fn next(&mut self, out: &mut Vec<u8>) -> io::Result<Part> {
        loop {
            if self.ended {
                return Ok(Part::End);
            }
            let available = self.stream.fill_buf()?;
            let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            let at_end = available.is_empty();
            let mut input = available;
            let piece = self.framing.next(&mut input).map_err(malformed)?;
            let part = match piece {
                Some(Piece::Bytes(bytes)) => {
                    out.extend_from_slice(bytes);
                    Some(Part::Bytes)
                }
                Some(Piece::ChunkEnd) => Some(Part::ChunkEnd),
                Some(Piece::End) => Some(Part::End),
                None if at_end && self.framing.may_end_here() => Some(Part::End),
                None if at_end => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => None,
            };
            let used = available.len() - input.len();
            self.stream.consume(used);
            self.ended = at_end || self.framing.is_complete();
            if let Some(part) = part {
                return Ok(part);
            }
        }
    }
}

impl Read for Body<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // Whole parts are needed by `next`; here a part is cut to what the caller has room for.
        loop {
            if self.ended || out.is_empty() {
                return Ok(0);
            }
            let available = self.stream.fill_buf()?;
            let at_end = available.is_empty();
            let mut input = &available[..available.len().min(out.len())];
            let offered = input.len();
            let piece = self
                .framing
                .next(&mut input)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let count = match piece {
                Some(Piece::Bytes(bytes)) => {
                    out[..bytes.len()].copy_from_slice(bytes);
                    bytes.len()
                }
                None if at_end && !self.framing.may_end_here() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Some(Piece::ChunkEnd | Piece::End) | None => 0,
            };
            self.ended = at_end || self.framing.is_complete();
            let used = offered - input.len();
            self.stream.consume(used);
            if count > 0 {
                return Ok(count);
            }
        }
    }
}

/// Bytes gathered before a chunk is written.
const CHUNK_BYTES: usize = 64 * 1024;

/// The body of a chunked request. [`Chunks::finish`] ends it.
#[derive(Debug)]
pub struct Chunks {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Chunks {
    /// Writes the last chunk and the end.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.stream.write_all(b"0\r\n\r\n")
    }

    /// Ends the connection in the middle of the body: the reader of the answer sees an error.
    pub fn abandon(self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let size = format!("{:x}\r\n", self.buffer.len());
        self.buffer.extend_from_slice(b"\r\n");
        self.stream.write_all(size.as_bytes())?;
        self.stream.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

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
            Url::parse("https://x")
                .unwrap_err()
                .to_string()
                .contains("only http://")
        );
        assert!(Url::parse("http://x:port/").is_err());
        assert!(Url::parse("http://:80/").is_err());
    }

    #[test]
    fn a_segment_keeps_only_what_needs_no_escape() {
        assert_eq!(segment("rj-7_.~"), "rj-7_.~");
        assert_eq!(segment("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }

    /// A server that answers each request of one connection with the next script, a byte at a
    /// time, and returns what it was asked.
    fn scripted(scripts: &'static [&'static str]) -> (Url, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut writer = stream;
            let mut asked = Vec::new();
            for script in scripts {
                asked.push(request(&mut reader));
                for byte in script.bytes() {
                    writer.write_all(&[byte]).unwrap();
                }
            }
            asked
        });
        (url, server)
    }

    fn request(reader: &mut impl BufRead) -> String {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            assert_ne!(
                reader.read_line(&mut text).unwrap(),
                0,
                "the client left: {text}"
            );
        }
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        if text.contains("chunked") {
            while !text.ends_with("0\r\n\r\n") {
                reader.read_line(&mut text).unwrap();
            }
        }
        text + std::str::from_utf8(&body).unwrap()
    }

    #[test]
    fn exchanges_follow_each_other_on_one_connection() {
        let (url, server) = scripted(&[
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nno such id",
        ]);
        let mut connection = Connection::open(&url).unwrap();
        let mut get = |payload| {
            let (answer, body) = connection
                .exchange("POST", "/x", &[("A", "b")], payload)
                .unwrap();
            (
                answer.status,
                String::from_utf8(body).unwrap(),
                connection.is_spent(),
            )
        };
        assert_eq!(
            get(Payload::Bytes(b"body")),
            (200, "hello".to_owned(), false)
        );
        assert_eq!(get(Payload::None), (200, "abcde".to_owned(), false));
        assert_eq!(get(Payload::None), (404, "no such id".to_owned(), true));
        let asked = server.join().unwrap();
        assert!(asked[0].starts_with("POST /x HTTP/1.1\r\nHost: 127.0.0.1:"));
        assert!(asked[0].ends_with("A: b\r\nContent-Length: 4\r\n\r\nbody"));
    }

    #[test]
    fn a_chunked_request_is_written_in_chunks() {
        let (url, server) = scripted(&["HTTP/1.1 204 No Content\r\n\r\n"]);
        let mut connection = Connection::open(&url).unwrap();
        connection
            .write("POST", "/x", &[], Payload::Chunked)
            .unwrap();
        let mut chunks = connection.chunks().unwrap();
        chunks.write_all(b"one\n").unwrap();
        chunks.write_all(b"two\n").unwrap();
        chunks.finish().unwrap();
        assert_eq!(connection.read_head().unwrap().status, 204);
        let asked = server.join().unwrap();
        assert!(
            asked[0].ends_with("\r\n\r\n8\r\none\ntwo\n\r\n0\r\n\r\n"),
            "{}",
            asked[0]
        );
    }

    #[test]
    fn a_body_cut_short_is_an_error() {
        let (url, server) =
            scripted(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"]);
        let mut connection = Connection::open(&url).unwrap();
        let error = connection
            .exchange("GET", "/", &[], Payload::None)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        server.join().unwrap();
    }
}
