//! Parses an event stream as WHATWG HTML, section 9.2.6 states it, step by step.

/// A dispatched event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// `message` unless the stream named a type.
    pub(crate) kind: String,
    pub(crate) data: String,
    pub(crate) last_event_id: String,
}

/// What a client knows after a stream.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) messages: Vec<Message>,
    pub(crate) retry: Option<u64>,
    data: String,
    kind: String,
    id: String,
    last_event_id: String,
}

/// Interprets a whole stream.
pub(crate) fn interpret(stream: &[u8]) -> Client {
    let text = String::from_utf8(stream.to_vec()).expect("the stream is UTF-8");
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut client = Client::default();
    while let Some(end) = rest.find(['\r', '\n']) {
        client.line(&rest[..end]);
        let width = if rest[end..].starts_with("\r\n") {
            2
        } else {
            1
        };
        rest = &rest[end + width..];
    }
    // An unfinished line, and an event without its blank line, are discarded.
    client
}

impl Client {
    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return self.dispatch();
        }
        if line.starts_with(':') {
            return;
        }
        match line.split_once(':') {
            Some((field, value)) => self.field(field, value.strip_prefix(' ').unwrap_or(value)),
            None => self.field(line, ""),
        }
    }

    fn field(&mut self, field: &str, value: &str) {
        match field {
            "event" => value.clone_into(&mut self.kind),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" if !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit()) => {
                self.retry = value.parse().ok();
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        self.last_event_id.clone_from(&self.id);
        let mut data = std::mem::take(&mut self.data);
        let kind = std::mem::take(&mut self.kind);
        if data.is_empty() {
            return;
        }
        if data.ends_with('\n') {
            data.pop();
        }
        self.messages.push(Message {
            kind: if kind.is_empty() {
                "message".to_owned()
            } else {
                kind
            },
            data,
            last_event_id: self.last_event_id.clone(),
        });
    }
}
