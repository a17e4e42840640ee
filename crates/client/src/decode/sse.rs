//! Server-Sent Events, interpreted as the HTML standard requires (section 9.2.6).

/// A dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The last event id when it was dispatched.
    pub id: String,
    /// Whether the event itself had an `id` line.
    pub has_own_id: bool,
    /// The event's type; `message` if it has no `event` line.
    pub kind: String,
    /// Its `data` lines, joined by line feeds.
    pub data: String,
}

/// An element of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// An event.
    Event(Event),
    /// An id without an event. It is the last event id from here on.
    Id(String),
    /// The reconnection time in milliseconds.
    Retry(u64),
    /// A comment, such as a heartbeat.
    Comment,
}

/// Decoder of a stream. Each connection has one.
#[derive(Debug, Default)]
pub struct Reader {
    line: Vec<u8>,
    after_cr: bool,
    started: bool,
    data: String,
    kind: String,
    id: String,
    has_own_id: bool,
}

impl Reader {
    /// Reads `bytes`, and appends the elements that they complete to `out`.
    pub fn read(&mut self, bytes: &[u8], out: &mut Vec<Signal>) {
        for &byte in bytes {
            let second = byte == b'\n' && std::mem::take(&mut self.after_cr);
            if second {
                continue;
            }
            self.after_cr = byte == b'\r';
            if byte == b'\n' || byte == b'\r' {
                let line = std::mem::take(&mut self.line);
                self.complete(&line, out);
                self.line = line;
                self.line.clear();
            } else {
                self.line.push(byte);
            }
        }
    }

    fn complete(&mut self, line: &[u8], out: &mut Vec<Signal>) {
        let mut line = line;
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        let line = String::from_utf8_lossy(line);
        if line.is_empty() {
            return self.dispatch(out);
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" => out.push(Signal::Comment),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "event" => value.clone_into(&mut self.kind),
            "id" if !value.contains('\0') => {
                value.clone_into(&mut self.id);
                self.has_own_id = true;
            }
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                if let Ok(millis) = value.parse() {
                    out.push(Signal::Retry(millis));
                }
            }
            _ => {}
        }
    }

    fn dispatch(&mut self, out: &mut Vec<Signal>) {
        let kind = std::mem::take(&mut self.kind);
        let mut data = std::mem::take(&mut self.data);
        let has_own_id = std::mem::take(&mut self.has_own_id);
        if data.pop().is_none() {
            if has_own_id {
                out.push(Signal::Id(self.id.clone()));
            }
            return;
        }
        let kind = if kind.is_empty() {
            "message".to_owned()
        } else {
            kind
        };
        out.push(Signal::Event(Event {
            id: self.id.clone(),
            has_own_id,
            kind,
            data,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<Signal> {
        let (mut reader, mut out) = (Reader::default(), Vec::new());
        for piece in pieces {
            reader.read(piece, &mut out);
        }
        out
    }

    fn event(id: &str, has_own_id: bool, kind: &str, data: &str) -> Signal {
        Signal::Event(Event {
            id: id.into(),
            has_own_id,
            kind: kind.into(),
            data: data.into(),
        })
    }

    #[test]
    fn a_stream_reads_alike_at_every_split() {
        let stream = "\u{feff}:\n\nretry: 2500\nid: 1-7\nevent: greeting\ndata: häl\ndata:lo\n\n\
            data\r\n\r\nid\rdata:  two\r\revent: none\n\nretry: x\ndata: last\n\n\
            : beat\nid: 1-9-8\n\ndata: on\n\n\
            id: 2-1\r\nevent: lines\r\ndata: one\r\ndata: two\r\n\r\ndata: unfinished\n"
            .as_bytes();
        let expected = [
            Signal::Comment,
            Signal::Retry(2500),
            event("1-7", true, "greeting", "häl\nlo"),
            event("1-7", false, "message", ""),
            event("", true, "message", " two"),
            event("", false, "message", "last"),
            Signal::Comment,
            Signal::Id("1-9-8".into()),
            event("1-9-8", false, "message", "on"),
            // A line feed behind a carriage return ends no second line, which would be empty.
            event("2-1", true, "lines", "one\ntwo"),
        ];
        assert_eq!(read(&[stream]), expected);
        for at in 1..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(read(&[left, right]), expected, "split at byte {at}");
        }
    }
}
