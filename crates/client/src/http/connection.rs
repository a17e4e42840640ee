//! One connection to a server: writes requests, reads heads of responses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::body::{Body, Part};
use super::chunks::ChunkWriter;
use super::stream::{Stream, secure};
use super::url::Url;
use crate::decode::framing::Framing;
use crate::decode::head::Head;

/// Time for a TCP connection or a TLS handshake to be answered.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The status after which the connection speaks another protocol, such as WebSocket.
const SWITCHING_PROTOCOLS: u16 = 101;

/// Bytes of one read.
const READ_BYTES: usize = 32 * 1024;

/// A kept-alive connection, for one request after the other.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    /// The socket of the stream.
    socket: TcpStream,
    is_secure: bool,
    host: String,
    must_close: bool,
}

/// The head of a response, owned.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Value of `Content-Type`; empty if there is none.
    pub content_type: String,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u64>,
    /// Bytes of the head.
    head: Vec<u8>,
    framing: Framing,
    closes: bool,
}

impl Response {
    /// Returns the head with all its fields.
    pub fn head(&self) -> Head<'_> {
        let parsed = Head::parse(&self.head);
        let (head, _) = parsed.ok().flatten().expect("the head was parsed before");
        head
    }
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestBody<'a> {
    /// No body.
    None,
    /// These bytes.
    Bytes(&'a [u8]),
    /// A chunked body, which is written with [`ChunkWriter`] after the head.
    Chunked,
}

impl Connection {
    /// Connects to the host of `url`. With a configuration of TLS, also completes its handshake.
    ///
    /// # Errors
    ///
    /// When the host has no address, the connection is refused or takes too long, or the handshake
    /// fails; [`crate::tls::handshake_error`] finds the reason in the error.
    pub fn open(url: &Url, tls: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&url.resolve()?, CONNECT_TIMEOUT)?;
        socket.set_nodelay(true)?;
        let carrier = socket.try_clone()?;
        let stream: Box<dyn Stream> = match tls {
            Some(config) => Box::new(secure(carrier, url.host(), config, CONNECT_TIMEOUT)?),
            None => Box::new(carrier),
        };
        Ok(Self {
            stream: BufReader::with_capacity(READ_BYTES, stream),
            socket,
            is_secure: tls.is_some(),
            host: url.authority().to_owned(),
            must_close: false,
        })
    }

    /// Limits how long a read may wait.
    ///
    /// # Errors
    ///
    /// When `timeout` is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)
    }

    /// Returns whether the server said that it closes this connection.
    pub fn must_close(&self) -> bool {
        self.must_close
    }

    /// Returns whether the server closed this connection while it stood idle. With TLS, a session
    /// ticket that has not been read also counts.
    pub fn is_stale(&self) -> bool {
        let peeked = self
            .socket
            .set_nonblocking(true)
            .and_then(|()| self.socket.peek(&mut [0]))
            .map_err(|error| error.kind());
        self.socket.set_nonblocking(false).is_err() || peeked != Err(io::ErrorKind::WouldBlock)
    }

    /// Returns a second handle, to write a chunked body while the response is read here.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left, or the connection has TLS: its state cannot be shared.
    pub fn chunks(&self) -> io::Result<ChunkWriter<TcpStream>> {
        match self.is_secure {
            false => Ok(ChunkWriter::new(self.socket.try_clone()?)),
            true => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns a writer of a chunked body, after which the response is read.
    pub(crate) fn body_writer(&mut self) -> ChunkWriter<&mut dyn Stream> {
        ChunkWriter::new(self.stream.get_mut().as_mut())
    }

    /// Writes the head of a request, and its body unless that is chunked.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn write(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        payload: RequestBody<'_>,
    ) -> io::Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        match payload {
            RequestBody::None => {}
            RequestBody::Bytes(bytes) => {
                request.push_str(&format!("Content-Length: {}\r\n", bytes.len()));
            }
            RequestBody::Chunked => request.push_str("Transfer-Encoding: chunked\r\n"),
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        if let RequestBody::Bytes(bytes) = payload {
            request.extend_from_slice(bytes);
        }
        self.stream.get_mut().write_all(&request)
    }

    /// Writes bytes of the protocol that the connection has switched to.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads the head of the response. Interim responses (1xx) are skipped.
    ///
    /// # Errors
    ///
    /// When the connection ends or breaks, a read takes too long, or the head is malformed.
    pub fn read_head(&mut self) -> io::Result<Response> {
        loop {
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"\r\n\r\n") {
                if self.stream.read_until(b'\n', &mut bytes)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            let Some((head, _)) = Head::parse(&bytes).map_err(malformed)? else {
                continue;
            };
            // 101 is not interim: what follows it is not HTTP.
            let switches = head.status == SWITCHING_PROTOCOLS;
            if (100..200).contains(&head.status) && !switches {
                continue;
            }
            self.must_close = head.closes();
            return Ok(Response {
                status: head.status,
                content_type: head.get("content-type").unwrap_or("").to_owned(),
                retry_after: head.get("retry-after").and_then(|value| value.parse().ok()),
                framing: match switches {
                    true => Framing::until_close(),
                    false => head.framing().map_err(malformed)?,
                },
                closes: head.closes() || switches,
                head: bytes,
            });
        }
    }

    /// Returns a reader of the body of `answer`.
    pub fn body(&mut self, answer: &Response) -> Body<'_> {
        self.must_close |= answer.closes;
        Body::new(&mut self.stream, answer.framing)
    }

    /// Waits for the next part of the body of `answer` and appends it to `out`. Unlike with
    /// [`body`](Self::body), the caller can write to the connection between two parts.
    ///
    /// # Errors
    ///
    /// Those of [`Body::next`].
    pub fn read_part(&mut self, answer: &mut Response, out: &mut Vec<u8>) -> io::Result<Part> {
        let mut body = self.body(answer);
        let part = body.next(out);
        answer.framing = body.framing();
        part
    }

    /// Waits until there is input or the peer has closed the connection.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or nothing comes within the read timeout.
    pub fn wait(&mut self) -> io::Result<()> {
        self.stream.fill_buf().map(drop)
    }

    /// Writes a request and reads the whole response.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write), [`read_head`](Self::read_head) and [`Body::next`].
    pub fn exchange(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        payload: RequestBody<'_>,
    ) -> io::Result<(Response, Vec<u8>)> {
        self.write(method, path, fields, payload)?;
        let answer = self.read_head()?;
        let mut bytes = Vec::new();
        self.body(&answer).read_to_end(&mut bytes)?;
        Ok((answer, bytes))
    }
}
