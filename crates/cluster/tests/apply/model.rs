//! A random log, and a model of its effects.

use std::collections::{BTreeMap, BTreeSet, btree_map};

use bytes::Bytes;
use graph::{Change, Id};
use history::Reach;
use replication::{
    Command, Entry, EventRecord, Incarnation, Outcome, Position, Reader, StreamSequence, shared,
};
use simulated::Dice;

/// Ids 0 to 7; every third is text.
pub(crate) const IDS: u64 = 8;

pub(crate) fn id(number: u64) -> Id {
    match number % 3 {
        0 => Id::parse(&format!("id-{number}")).expect("valid"),
        _ => Id::integer(number).expect("small"),
    }
}

/// An event, and its recipients according to the graph at its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) subject: u64,
    pub(crate) reach: Reach,
    pub(crate) is_stored: bool,
    pub(crate) recipients: BTreeSet<u64>,
}

pub(crate) type Edges = BTreeSet<(u64, u64)>;

/// Messages of a stream, and their effects.
pub(crate) struct Log {
    pub(crate) messages: Vec<Bytes>,
    /// Events that count, by position.
    pub(crate) events: BTreeMap<u64, Owed>,
    /// Edges after each message.
    pub(crate) edges: Vec<Edges>,
    /// Edges that ended, with the position of the change.
    pub(crate) ended: Vec<(u64, (u64, u64))>,
    /// When each message was stored.
    pub(crate) seconds: Vec<u64>,
    /// Pieces of shared state that repeat an earlier one.
    pub(crate) repeats: usize,
    /// Names of pieces, and until when they are known.
    claims: BTreeMap<u8, u64>,
}

/// Time for which the name of a piece is known, by the clock of the log.
pub(crate) const CLAIM_SECONDS: u64 = 40;

impl Log {
    /// Creates the log of two writers that repeat entries and send some out of order.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let mut random = Dice::new(seed);
        let writers = [11, 22].map(|number| Incarnation::new(number).expect("not 0"));
        let mut sent: [Vec<Bytes>; 2] = Default::default();
        let mut log = Self {
            messages: Vec::new(),
            events: BTreeMap::new(),
            edges: vec![Edges::new()],
            ended: Vec::new(),
            seconds: Vec::new(),
            repeats: 0,
            claims: BTreeMap::new(),
        };
        let mut time = 100;
        let mut reader = Reader::default();
        while log.messages.len() < count {
            let writer = random.within(0..2) as usize;
            let is_repeated = !sent[writer].is_empty() && random.within(0..4) == 0;
            let bytes = if is_repeated {
                sent[writer][random.within(0..sent[writer].len() as u64) as usize].clone()
            } else {
                let commands = match sent[writer].is_empty() {
                    true => vec![Command::NodeUp {
                        name: "n".into(),
                        version: "1".into(),
                        after: reader.checkpoint().read,
                    }],
                    false => (0..1 + random.within(0..6))
                        .map(|_| command(&mut random))
                        .collect(),
                };
                // Now and then an entry is missing, so all later ones are out of order.
                let skip = u64::from(random.within(0..60) == 0 && sent[writer].len() > 20);
                let entry = Entry {
                    incarnation: writers[writer],
                    number: sent[writer].len() as u64 + 1 + skip,
                    commands,
                };
                let bytes = entry.encode().expect("within bounds");
                if skip == 0 {
                    sent[writer].push(bytes.clone());
                }
                bytes
            };
            // The clocks of two servers differ by some seconds.
            time += random.within(0..4);
            log.seconds.push(time - random.within(0..6));
            log.push(&mut reader, bytes);
        }
        log
    }

    fn push(&mut self, reader: &mut Reader, bytes: Bytes) {
        let sequence = StreamSequence::new(self.messages.len() as u64 + 1).expect("small");
        let read = reader.read(sequence, &bytes).expect("the next entry");
        self.messages.push(bytes);
        let now = self.seconds.iter().max().copied().expect("one at least");
        self.claims.retain(|_, until| *until > now);
        let mut edges = self.edges.last().expect("one at the start").clone();
        if let Outcome::Counts(entry) = read.outcome {
            let mut passed = 0;
            for (index, command) in entry.commands.iter().enumerate() {
                if passed > 0 {
                    passed -= 1;
                    continue;
                }
                let position = Position::new(sequence, index as u16).number();
                match command {
                    Command::Event(event) => {
                        let owed = owed(event, &edges);
                        self.events.insert(position, owed);
                    }
                    Command::Change(change) => {
                        let before = edges.clone();
                        apply(&mut edges, change);
                        let ended = before.difference(&edges);
                        self.ended.extend(ended.map(|&edge| (position, edge)));
                    }
                    Command::Shared { bytes, .. } => match self.claims.entry(bytes[1]) {
                        btree_map::Entry::Occupied(_) => {
                            self.repeats += 1;
                            passed = usize::from(bytes[0]);
                        }
                        btree_map::Entry::Vacant(entry) => {
                            entry.insert(now + CLAIM_SECONDS);
                        }
                    },
                    _ => {}
                }
            }
        }
        self.edges.push(edges);
    }
}

fn number(id: &Id) -> u64 {
    (0..IDS)
        .find(|&number| self::id(number) == *id)
        .expect("one of ours")
}

fn owed(event: &EventRecord, edges: &Edges) -> Owed {
    let subject = number(&event.subject);
    let mut recipients = BTreeSet::from([subject]);
    if event.reach == Reach::Subscribers {
        let followers = edges.iter().filter(|(_, to)| *to == subject);
        recipients.extend(followers.map(|(from, _)| *from));
    }
    Owed {
        subject,
        reach: event.reach,
        is_stored: event.is_stored,
        recipients,
    }
}

fn apply(edges: &mut Edges, change: &Change) {
    match change {
        Change::Subscribe {
            subscriber,
            subject,
        } => {
            if subscriber != subject {
                edges.insert((number(subscriber), number(subject)));
            }
        }
        Change::Unsubscribe {
            subscriber,
            subject,
        } => {
            edges.remove(&(number(subscriber), number(subject)));
        }
        Change::Replace {
            subscriber,
            subjects,
        } => {
            let from = number(subscriber);
            edges.retain(|(subscriber, _)| *subscriber != from);
            let subjects = subjects.iter().map(number).filter(|to| *to != from);
            edges.extend(subjects.map(|to| (from, to)));
        }
        Change::Remove { id } => {
            let gone = number(id);
            edges.retain(|(from, to)| *from != gone && *to != gone);
        }
    }
}

fn command(random: &mut Dice) -> Command {
    let mut any = || id(random.within(0..IDS));
    let (subscriber, subject, other) = (any(), any(), any());
    match random.within(0..20) {
        0..5 => Command::Change(Change::Subscribe {
            subscriber,
            subject,
        }),
        5..7 => Command::Change(Change::Unsubscribe {
            subscriber,
            subject,
        }),
        7 => Command::Change(Change::Replace {
            subscriber,
            subjects: vec![subject, other],
        }),
        8 => Command::Change(Change::Remove { id: subject }),
        9 | 10 => Command::Shared {
            kind: shared::IDEMPOTENCY_KEY,
            bytes: Bytes::from(vec![random.within(0..3) as u8, random.within(0..6) as u8]),
        },
        _ => Command::Event(EventRecord {
            subject,
            reach: match random.within(0..4) {
                0 => Reach::Subject,
                _ => Reach::Subscribers,
            },
            is_stored: random.within(0..8) != 0,
            tag: 1,
            event_type: "".into(),
            payload: Bytes::from(vec![b'x'; random.within(0..40) as usize]),
        }),
    }
}
