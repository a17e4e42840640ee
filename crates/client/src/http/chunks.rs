//! The body of a request in chunks, which can be written while the response is read.

use std::io::{self, Write};
use std::net::TcpStream;

/// Bytes gathered before a chunk is written.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writer of a chunked request body. The body is complete after [`ChunkWriter::finish`].
#[derive(Debug)]
pub struct ChunkWriter<W> {
    stream: W,
    buffer: Vec<u8>,
}

impl ChunkWriter<TcpStream> {
    /// Shuts the connection down within the body, so that the reader of the response sees an error.
    pub fn abandon(self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl<W: Write> ChunkWriter<W> {
    pub(super) fn new(stream: W) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Writes what is buffered and the last chunk, which ends the body.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.stream.write_all(b"0\r\n\r\n")?;
        self.stream.flush()
    }
}

impl<W: Write> Write for ChunkWriter<W> {
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
