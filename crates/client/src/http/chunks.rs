//! The body of a request, written in chunks while its answer may be read already.

use std::io::{self, Write};
use std::net::TcpStream;

/// Bytes gathered before a chunk is written.
const CHUNK_BYTES: usize = 64 * 1024;

/// The body of a chunked request. [`ChunkWriter::finish`] ends it.
#[derive(Debug)]
pub struct ChunkWriter {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl ChunkWriter {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Writes the last chunk and the end.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.stream.write_all(b"0\r\n\r\n")
    }

    /// Ends the connection in the middle of the body: the reader of the answer sees an error.
    pub fn abandon(self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Write for ChunkWriter {
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
