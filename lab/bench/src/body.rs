//! Request bodies generated line by line while they are read.

use std::io::{self, Read};

/// Body generated line by line while it is read, so that a million lines need no memory.
pub struct Lines<I> {
    lines: I,
    buffer: Vec<u8>,
    at: usize,
}

/// Bytes generated at a time.
const LINES_BYTES: usize = 64 * 1024;

impl<I: Iterator<Item = String>> Lines<I> {
    /// Creates a body of these lines, each with its line end.
    pub fn new(lines: I) -> Self {
        Self {
            lines,
            buffer: Vec::new(),
            at: 0,
        }
    }
}

impl<I: Iterator<Item = String>> Read for Lines<I> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            while self.buffer.len() < LINES_BYTES
                && let Some(line) = self.lines.next()
            {
                self.buffer.extend_from_slice(line.as_bytes());
            }
        }
        let count = out.len().min(self.buffer.len() - self.at);
        out[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Generates edges by which the `count` ids from `first` on subscribe to `subject`.
pub fn edges(first: u32, count: u32, subject: u32) -> impl Read {
    let subscribers = first..first + count;
    Lines::new(subscribers.map(move |subscriber| format!("{subscriber} {subject}\n")))
}

/// Generates a batch with one event about each of `subjects`.
pub fn batch(subjects: impl IntoIterator<Item = u32>, payload: &str) -> impl Read {
    let line = move |subject| format!("{{\"subject\":{subject},\"data\":\"{payload}\"}}\n");
    Lines::new(subjects.into_iter().map(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_generated_as_they_are_read() {
        let mut text = String::new();
        edges(5, 3, 9).read_to_string(&mut text).unwrap();
        assert_eq!(text, "5 9\n6 9\n7 9\n");
        let mut text = String::new();
        batch([3, 1], "x").read_to_string(&mut text).unwrap();
        assert_eq!(
            text,
            "{\"subject\":3,\"data\":\"x\"}\n{\"subject\":1,\"data\":\"x\"}\n"
        );
        let mut long = Vec::new();
        batch(0..50_000, "payload").read_to_end(&mut long).unwrap();
        assert_eq!(long.iter().filter(|&&byte| byte == b'\n').count(), 50_000);
    }
}
