//! Lines of a stream that arrives in pieces.

/// Longest line that is kept: room for an event of 64 KiB whose bytes are all escaped, and its
/// envelope.
pub const LINE_MAX: usize = 1024 * 1024;

/// Splits a stream into lines. Each connection has one.
#[derive(Debug, Default)]
pub struct Reader {
    line: Vec<u8>,
    overlong: bool,
}

impl Reader {
    /// Reads `bytes`, and passes each line that they complete to `tell`, without its end. A line
    /// that is longer than [`LINE_MAX`] is passed as `None`.
    pub fn read(&mut self, mut bytes: &[u8], mut tell: impl FnMut(Option<&[u8]>)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.push(&bytes[..end]);
            bytes = &bytes[end + 1..];
            if std::mem::take(&mut self.overlong) {
                tell(None);
            } else {
                tell(Some(self.line.strip_suffix(b"\r").unwrap_or(&self.line)));
            }
            self.line.clear();
        }
        self.push(bytes);
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.overlong || self.line.len() + bytes.len() > LINE_MAX {
            self.overlong = true;
            self.line.clear();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let (mut reader, mut lines) = (Reader::default(), Vec::new());
        for piece in pieces {
            reader.read(piece, |line| lines.push(line.map(<[u8]>::to_vec)));
        }
        lines
    }

    #[test]
    fn lines_read_alike_at_every_split() {
        let stream = b"one\r\n\ntwo\nunfinished";
        let expected = [&b"one"[..], b"", b"two"].map(|line| Some(line.to_vec()));
        for at in 0..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(read(&[left, right]), expected, "split at byte {at}");
        }
    }

    #[test]
    fn an_overlong_line_is_reported_and_the_next_is_read() {
        let long = vec![b'x'; LINE_MAX + 1];
        assert_eq!(read(&[&long, b"\nnext\n"]), [None, Some(b"next".to_vec())]);
    }
}
