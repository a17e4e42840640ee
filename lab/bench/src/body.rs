//! Request bodies generated line by line while they are read.

use std::io::{self, Read};

/// Body generated line by line while it is read, so that a million lines need no memory.
pub struct Lines<F> {
    make: F,
    buffer: Vec<u8>,
    at: usize,
}

/// Bytes generated at a time.
const LINES_BYTES: usize = 64 * 1024;

impl<F: FnMut(&mut Vec<u8>) -> bool> Lines<F> {
    /// Creates a body. `make` appends one line for each call and returns false when there are no
    /// more.
    pub fn new(make: F) -> Self {
        Self {
            make,
            buffer: Vec::new(),
            at: 0,
        }
    }
}

impl<F: FnMut(&mut Vec<u8>) -> bool> Read for Lines<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            while self.buffer.len() < LINES_BYTES && (self.make)(&mut self.buffer) {}
        }
        let count = out.len().min(self.buffer.len() - self.at);
        out[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Generates edges by which the `count` ids from `first` on subscribe to `subject`.
pub fn edges(first: u32, count: u32, subject: u32) -> impl Read {
    let mut subscribers = first..first + count;
    Lines::new(move |out| {
        subscribers.next().is_some_and(|subscriber| {
            out.extend_from_slice(format!("{subscriber} {subject}\n").as_bytes());
            true
        })
    })
}

/// Generates a batch with one event about each of `subjects`.
pub fn batch(subjects: impl IntoIterator<Item = u32>, payload: &str) -> impl Read {
    let mut subjects = subjects.into_iter();
    Lines::new(move |out| {
        subjects.next().is_some_and(|subject| {
            out.extend_from_slice(
                format!("{{\"subject\":{subject},\"data\":\"{payload}\"}}\n").as_bytes(),
            );
            true
        })
    })
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
