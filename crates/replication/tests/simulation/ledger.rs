//! The ledger: appends of publishers, their answers, and the resulting requirements.

use std::collections::BTreeMap;

use replication::{AppendError, Position};

/// Append of a publisher.
#[derive(Debug)]
pub(crate) struct Appended {
    /// Node and its run.
    pub(crate) writer: (usize, u32),
    /// Numbers of its commands, unique and increasing.
    pub(crate) commands: Vec<u64>,
    pub(crate) answer: Option<Answered>,
}

/// Answer to an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It counts, at this position.
    At(Position),
    /// It may count.
    Unknown,
    /// It does not count.
    Refused,
}

impl From<AppendError> for Answered {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Unknown => Self::Unknown,
            _ => Self::Refused,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) appends: Vec<Appended>,
    next: u64,
}

impl Ledger {
    /// Records an append of `count` commands. Returns its token and the numbers of its commands.
    pub(crate) fn append(&mut self, writer: (usize, u32), count: u64) -> (usize, Vec<u64>) {
        let commands: Vec<u64> = (self.next..self.next + count).collect();
        self.next += count;
        self.appends.push(Appended {
            writer,
            commands: commands.clone(),
            answer: None,
        });
        (self.appends.len() - 1, commands)
    }

    pub(crate) fn answer(&mut self, token: usize, answer: Answered) {
        let append = &mut self.appends[token];
        assert_eq!(append.answer, None, "an append is answered once");
        append.answer = Some(answer);
    }

    /// Records that the appends of a killed run have no answer.
    pub(crate) fn crashed(&mut self, writer: (usize, u32)) {
        let appends = self.appends.iter_mut().filter(|it| it.writer == writer);
        for append in appends {
            append.answer.get_or_insert(Answered::Unknown);
        }
    }

    /// Checks the commands that all nodes have applied. Returns the number of appends that were
    /// acknowledged.
    pub(crate) fn check(&self, applied: &[(Position, u64)]) -> usize {
        let mut places = BTreeMap::new();
        for &(position, command) in applied {
            let first = places.insert(command, position);
            assert_eq!(first, None, "command {command} was applied twice");
        }
        let mut counted = 0;
        for append in &self.appends {
            let Appended {
                commands, answer, ..
            } = append;
            let found = commands.iter().filter_map(|it| places.remove(it));
            let found: Vec<Position> = found.collect();
            match answer.expect("every append is answered") {
                Answered::At(first) => {
                    counted += 1;
                    let first = first.number();
                    let expected = (first..).take(commands.len()).map(Position::from_number);
                    let expected: Vec<_> = expected.collect();
                    assert_eq!(
                        found, expected,
                        "an acknowledged append is not where it was said"
                    );
                }
                Answered::Refused => assert_eq!(found, [], "a refused append was applied"),
                Answered::Unknown => {
                    let is_whole = found.is_empty() || found.len() == commands.len();
                    assert!(is_whole, "an append was applied in part");
                }
            }
        }
        assert!(
            places.is_empty(),
            "applied without having been appended: {places:?}"
        );
        self.check_order(applied);
        counted
    }

    fn check_order(&self, applied: &[(Position, u64)]) {
        let commands = self.appends.iter();
        let writers: BTreeMap<u64, (usize, u32)> = commands
            .flat_map(|it| it.commands.iter().map(|&command| (command, it.writer)))
            .collect();
        let mut last = BTreeMap::new();
        for (_, command) in applied {
            let before = last.insert(writers[command], *command);
            assert!(
                before < Some(*command),
                "the order of a writer was not kept"
            );
        }
    }
}
