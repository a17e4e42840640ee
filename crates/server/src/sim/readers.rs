//! Readers: clients that come back with the last id that they have, and what each of them is owed.
//!
//! A reader whose connection ends has read a part of what it was sent. In the end it must have each
//! event that it is owed, or must have been told that it may miss some. It must have none that is
//! not for it, and none twice but those beside its cursor. It must not be told of a loss that there
//! was not.

use std::collections::{BTreeMap, BTreeSet};

use simulated::Dice;

use super::notices::Notice;
use super::texts::unchunked;
use super::websocket_frames;

/// Subscriptions, with the head of the history when they were made.
pub type Edges = BTreeMap<(&'static str, &'static str), u64>;

/// Bytes of an answer up to its status.
pub(super) const STATUS_BYTES: usize = "HTTP/1.1 200".len();

/// What streams are asked for by.
pub const STREAMS: [&str; 2] = ["/events/", "/stream/"];

/// Streams, WebSockets and polls.
pub(super) const ALL_PATHS: [&str; 4] = ["/events/", "/stream/", WEBSOCKET, POLL];

/// What WebSockets are asked for by.
pub const WEBSOCKET: &str = "/ws/";

const POLL: &str = "/poll/";

/// Seconds that a poll waits.
const POLL_SECONDS: u32 = 2;

/// Cursors that no server of these tests has given.
const WRONG: [&str; 4] = ["other-7", "garbage", "e-999999", "e-5-6"];

/// State of a client's connection, as a model knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// Its worker does not know it yet.
    Coming,
    /// Its worker knows it.
    Online,
    /// It will be gone when its worker has taken a turn.
    Leaving,
    /// Its worker has forgotten it.
    Gone,
}

/// A client over all its connections.
#[derive(Debug)]
pub struct Reader {
    /// Epoch of the server.
    epoch: String,
    /// Ids that it asks for.
    pub ids: BTreeSet<&'static str>,
    path: &'static str,
    /// It asks to be told who is online.
    pub asks_presence: bool,
    version: usize,
    /// The last id that it has.
    pub(super) cursor: Option<String>,
    /// Whether that is not from this server.
    is_cursor_wrong: bool,
    /// Whether the server may have lost events before that in a crash.
    is_cursor_doubtful: bool,
    /// Position up to which the cursor of its connection has everything.
    resumed: u64,
    /// Position from which on events are owed: its first cursor, or where a reset went on.
    since: Option<u64>,
    received: BTreeSet<u64>,
    /// Events published beside a login that asked for no past.
    excused: BTreeSet<u64>,
}

/// An event as it was published.
#[derive(Debug)]
pub struct Posted {
    /// Its position; 0 if it is not known.
    pub position: u64,
    /// What it is about.
    pub subject: &'static str,
    /// Ids that it was for, or may have been for, when it was planned.
    pub readers: BTreeSet<&'static str>,
    /// Whether it was for its subject alone.
    pub is_sent: bool,
    /// Whether the history has it.
    pub is_stored: bool,
}

/// What a client reads of a stream.
#[derive(Debug)]
enum Item {
    Event(String, String),
    Id(String),
    Reset(String),
    Gap,
    Notice(Notice),
}

impl Reader {
    /// Makes a client of one of these paths.
    pub fn new(ids: BTreeSet<&'static str>, paths: &[&'static str], dice: &mut Dice) -> Self {
        Self {
            epoch: "e".to_owned(),
            ids,
            asks_presence: false,
            path: paths[dice.roll(paths.len())],
            version: dice.roll(2),
            cursor: None,
            is_cursor_wrong: false,
            is_cursor_doubtful: false,
            resumed: 0,
            since: None,
            received: BTreeSet::new(),
            excused: BTreeSet::new(),
        }
    }

    /// The server has started again, and has another epoch.
    pub fn restart(&mut self, epoch: &str) {
        epoch.clone_into(&mut self.epoch);
        self.is_cursor_wrong = true;
        self.since = self.cursor.as_ref().map(|_| u64::MAX);
        self.received.clear();
        self.excused.clear();
    }

    /// The server has started again, and goes on with its history: it has everything up to a
    /// position. Who has seen more may be told that this is gone.
    pub fn go_on(&mut self, acknowledged: u64) {
        let complete = self
            .cursor
            .as_deref()
            .map(|it| complete_of(&self.epoch, it));
        self.is_cursor_doubtful |= complete.is_some_and(|it| it > acknowledged);
    }

    /// Whether the last id that it has is of another server.
    pub const fn has_foreign_cursor(&self) -> bool {
        self.is_cursor_wrong && self.cursor.is_some()
    }

    /// Whether it has a connection for each poll.
    pub fn polls(&self) -> bool {
        self.path == POLL
    }

    /// Begins a connection, and returns its request.
    pub fn connect(&mut self) -> String {
        let Self {
            ids,
            path,
            version,
            cursor,
            epoch,
            asks_presence,
            ..
        } = self;
        let list = ids.iter().copied().collect::<Vec<_>>().join(",");
        self.resumed = cursor.as_deref().map_or(0, |it| complete_of(epoch, it));
        let field = match cursor {
            Some(cursor) => format!("Last-Event-ID: {cursor}\r\n"),
            None => String::new(),
        };
        if *path == WEBSOCKET {
            let list = match asks_presence {
                true => format!("{list}?presence=1"),
                false => list,
            };
            return websocket_frames::request(&format!("{path}{list}"), &field);
        }
        let list = match *path {
            _ if *asks_presence => format!("{list}?presence=1"),
            POLL => format!("{list}?wait={POLL_SECONDS}"),
            _ => list,
        };
        let version = if *path == POLL { &1 } else { version };
        format!("GET {path}{list} HTTP/1.{version}\r\nHost: localhost\r\n{field}\r\n")
    }

    /// Excuses it from an event that was published beside its login.
    pub fn excuse(&mut self, position: u64) {
        self.excused.insert(position);
    }

    /// Excuses it from an event that was published beside its login, if it has no cursor.
    pub fn excuse_without_cursor(&mut self, position: u64) {
        if self.cursor.is_none() {
            self.excuse(position);
        }
    }

    /// Gives it a cursor that is not from this server, now and then.
    pub fn mistake_cursor(&mut self, dice: &mut Dice) {
        if self.cursor.is_some() && dice.roll(12) == 0 {
            self.cursor = Some(WRONG[dice.roll(4)].to_owned());
            self.is_cursor_wrong = true;
            self.since = Some(u64::MAX);
        }
    }

    /// Takes what it has read of its connection, and checks it. `left` is the position up to which
    /// events have left the history.
    ///
    /// # Panics
    ///
    /// If it has read what it must not be sent.
    pub fn read<'a>(
        &mut self,
        bytes: &[u8],
        left: u64,
        published: impl Fn(u64, &str) -> Option<&'a Posted>,
    ) {
        let mut in_connection = BTreeMap::<&str, u64>::new();
        let items = match self.polls() {
            _ if !is_served(bytes) => Vec::new(),
            true => answers(bytes),
            false => items(bytes),
        };
        for item in items {
            match item {
                Item::Event(id, data) => {
                    let position = position_of(&id);
                    let posted = published(position, &data);
                    let posted = posted.unwrap_or_else(|| panic!("{id} {data}: unknown"));
                    assert!(
                        !posted.readers.is_disjoint(&self.ids),
                        "{id} is for {:?}, not for {:?}",
                        posted.readers,
                        self.ids
                    );
                    let is_new = self.received.insert(position);
                    if is_new {
                        // A session that catches up goes back to an event that later ones have
                        // overtaken, and gets those again.
                        in_connection.retain(|_, before| *before < position);
                    }
                    let before = in_connection.insert(posted.subject, position);
                    assert!(before.is_none_or(|before| before < position), "{id} twice");
                    assert!(is_new || position > self.resumed, "{id} again");
                    self.have(id);
                }
                // About events that the history does not have; and about no event.
                Item::Gap | Item::Notice(_) => {}
                Item::Id(id) => self.have(id),
                Item::Reset(reason) => self.reset(&reason, left),
            }
        }
        if self.since.is_none() && self.cursor.is_some() {
            // Cut off behind the notice of a reset: it will be told again.
            self.since = Some(u64::MAX);
        }
    }

    fn have(&mut self, id: String) {
        self.since.get_or_insert(complete_of(&self.epoch, &id));
        self.cursor = Some(id);
        (self.is_cursor_wrong, self.is_cursor_doubtful) = (false, false);
    }

    fn reset(&mut self, reason: &str, left: u64) {
        let cursor = self.cursor.as_deref();
        let complete = cursor.map_or(0, |it| complete_of(&self.epoch, it));
        let is_true = match reason {
            "expired" => self.is_cursor_wrong || left > complete,
            _ => self.is_cursor_wrong || self.is_cursor_doubtful,
        };
        assert!(
            is_true,
            "a reset ({reason}) with cursor {:?}, and {left} have left",
            self.cursor
        );
        // The next id tells where the stream goes on. What comes may be known.
        (self.since, self.resumed) = (None, 0);
    }

    /// Checks that it has all that it is owed.
    ///
    /// # Panics
    ///
    /// If it has not.
    pub fn judge<'a>(
        &self,
        name: impl std::fmt::Display,
        published: impl IntoIterator<Item = &'a Posted>,
        edges: &Edges,
    ) {
        let since = self.since.expect("it has a cursor");
        for posted in published {
            let position = posted.position;
            let is_owed = position > since
                && posted.is_stored
                && !self.excused.contains(&position)
                && self.is_for(posted, edges);
            assert!(
                !is_owed || self.received.contains(&position),
                "{name}, of {:?}, missed {position} about {}, since {since}",
                self.ids,
                posted.subject
            );
        }
    }

    /// Returns whether an event was for it all the time since it was published.
    fn is_for(&self, posted: &Posted, edges: &Edges) -> bool {
        let subject = posted.subject;
        self.ids.iter().any(|&id| {
            let edge = edges.get(&(id, subject));
            id == subject || (!posted.is_sent && edge.is_some_and(|&since| since < posted.position))
        })
    }
}

/// Returns whether an answer is what was asked for.
pub fn is_served(answer: &[u8]) -> bool {
    let status = answer.get("HTTP/1.1 ".len()..STATUS_BYTES);
    matches!(status, Some(b"200" | b"204" | b"101"))
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// The position of a cursor of this server.
fn position_of(cursor: &str) -> u64 {
    number(cursor.split('-').nth(1).expect("a position"))
}

/// The position up to which the holder of a cursor has everything; 0 for a wrong cursor.
fn complete_of(epoch: &str, cursor: &str) -> u64 {
    let rest = cursor.strip_prefix(epoch);
    let rest = rest.and_then(|rest| rest.strip_prefix('-'));
    let last = rest.and_then(|rest| rest.split('-').next_back());
    last.map_or(0, number)
}

/// Returns what is whole of the answers to polls.
fn answers(bytes: &[u8]) -> Vec<Item> {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut items) = (&*text, Vec::new());
    while let Some((head, after)) = rest.split_once("\r\n\r\n") {
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.find(|(it, _)| *it == name).map(|(_, value)| value)
        };
        let length = field("Content-Length").map_or(0, |it| number(it) as usize);
        let (Some(body), Some(cursor)) = (after.get(..length), field("Encke-Cursor")) else {
            break;
        };
        let objects = body.trim_start_matches('[').trim_end_matches(']');
        items.extend(events_of_lines(&(objects.replace("},{", "}\n{") + "\n")));
        items.push(Item::Id(cursor.to_owned()));
        rest = &after[length..];
    }
    items
}

/// Returns what a stream or a WebSocket has said of who is online.
pub fn notices(bytes: &[u8]) -> Vec<Notice> {
    let notice = |item| match item {
        Item::Notice(notice) => Some(notice),
        _ => None,
    };
    items(bytes).into_iter().filter_map(notice).collect()
}

/// Returns what is whole of a stream.
fn items(bytes: &[u8]) -> Vec<Item> {
    if let Some(messages) = websocket_frames::messages_of(bytes) {
        let objects = messages.into_iter().filter(|it| it.starts_with('{'));
        let lines = objects.map(|object| object + "\n");
        return events_of_lines(&lines.collect::<String>());
    }
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Vec::new();
    };
    let body = match head.contains("chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    };
    match head.contains("text/event-stream") {
        true => events_of_blocks(&body),
        false => events_of_lines(&body),
    }
}

fn events_of_blocks(body: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = body;
    while let Some((block, after)) = rest.split_once("\n\n") {
        rest = after;
        let field = |name: &str| {
            let mut lines = block.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.map(str::to_owned)
        };
        match (field("event"), field("id"), field("data")) {
            (Some(event), None, Some(data)) if event == "reset" => items.push(reset(&data)),
            (Some(event), None, Some(_)) if event == "gap" => items.push(Item::Gap),
            (Some(event), None, Some(data)) => {
                let notice = Notice::read(&event, &data);
                items.push(Item::Notice(notice.expect(block)));
            }
            (None, Some(id), Some(data)) => items.push(Item::Event(id, data)),
            (None, Some(id), None) => items.push(Item::Id(id)),
            (None, None, None) => {}
            other => panic!("{other:?} in {block}"),
        }
    }
    items
}

fn events_of_lines(body: &str) -> Vec<Item> {
    let whole = body.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut items = Vec::new();
    for line in whole.lines().filter(|line| *line != "{}") {
        let value = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
            Some(rest.split('"').next()?.to_owned())
        };
        if let Some(notice) = Notice::of_line(line) {
            items.push(Item::Notice(notice));
            continue;
        }
        items.push(match (value("id"), value("data")) {
            (Some(id), Some(data)) => Item::Event(id, data),
            (Some(id), None) => Item::Id(id),
            _ if line.contains("\"type\":\"reset\"") => reset(line),
            _ if line.contains("\"type\":\"gap\"") => Item::Gap,
            _ => panic!("{line}"),
        });
    }
    items
}

fn reset(data: &str) -> Item {
    let (_, rest) = data.split_once("\"reason\":\"").expect("a reason");
    Item::Reset(rest.split('"').next().expect("a reason").to_owned())
}
