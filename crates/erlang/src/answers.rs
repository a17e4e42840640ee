//! Answers to calls of remote processes.

use std::error::Error;

use crate::connections::{ConnectionId, Connections};
use crate::control;
use crate::term::{Raw, Term, write};

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    /// The connection on which the request came.
    pub(crate) connection: ConnectionId,
    /// The caller, a term `{Pid, Tag}`; `None` for a cast, which gets no answer.
    pub(crate) from: Option<Raw<'a>>,
}

/// The error of a call, whose text is the sentence of an `{error, Sentence}` answer.
pub(crate) type CallError = Box<dyn Error>;

impl<'a> Caller<'a> {
    /// Returns the caller whose term was [kept](Self::kept).
    pub(crate) fn restore(connection: ConnectionId, from: Option<&'a [u8]>) -> Self {
        let from = from.and_then(|from| Raw::parse(from).ok());
        let from = from.map(|(from, _)| from);
        Self { connection, from }
    }

    /// Returns a copy of the caller's term, to be kept until the answer is known.
    pub(crate) fn kept(self) -> Option<Box<[u8]>> {
        self.from.map(|from| from.bytes().into())
    }
}

impl Connections {
    /// Answers a call with `{Tag, Reply}`. If the caller waits with an alias, the answer goes to
    /// the alias, so that a late answer is dropped.
    pub(crate) fn answer(&mut self, caller: Caller<'_>, reply: impl FnOnce(&mut Vec<u8>)) {
        let Some([pid, tag]) = caller.from.and_then(Raw::tuple) else {
            return;
        };
        let (Some(to), Some(node)) = (pid.pid(), self.peer(caller.connection)) else {
            return;
        };
        // A call on behalf of a process of another node is answered on that node's connection.
        let connection = match to.node.is(&node.name) {
            true => Some(caller.connection),
            false => self.find(&to.node.text()),
        };
        let Some(connection) = connection.filter(|&connection| self.is_up(connection)) else {
            return;
        };
        let alias = match tag.view() {
            Term::List(list) if node.flags.has_alias() && list.elements().len() == 1 => list
                .elements()
                .next()
                .filter(|first| first.is_atom("alias"))
                .map(|_| list.tail())
                .filter(|tail| matches!(tail.view(), Term::Reference(_))),
            _ => None,
        };
        let control = |out: &mut Vec<u8>| match alias {
            Some(alias) => control::alias_send(out, pid, alias),
            None => control::send(out, |out| write::raw(out, pid)),
        };
        self.message(connection, control, |out| {
            write::tuple(out, 2);
            write::raw(out, tag);
            reply(out);
        });
    }

    /// Answers `{error, Sentence}`.
    pub(crate) fn answer_error(&mut self, caller: Caller<'_>, sentence: &str) {
        self.answer(caller, |out| {
            write::tuple(out, 2);
            write::atom(out, "error");
            write::binary(out, sentence.as_bytes());
        });
    }

    /// Answers `ok` or `{error, Sentence}`.
    pub(crate) fn answer_result(&mut self, caller: Caller<'_>, done: Result<(), CallError>) {
        match done {
            Ok(()) => self.answer(caller, |out| write::atom(out, "ok")),
            Err(error) => self.answer_error(caller, &error.to_string()),
        }
    }

    /// Answers `{ok, N}` with the number of messages that an event was sent in.
    pub(crate) fn answer_sent(&mut self, caller: Caller<'_>, sent: u64) {
        self.answer(caller, |out| {
            write::tuple(out, 2);
            write::atom(out, "ok");
            write::integer(out, sent.cast_signed());
        });
    }
}
