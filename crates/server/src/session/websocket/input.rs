//! Frames of clients to messages, and their answers.

use graph::Id;
use reactor::{Driver, SlotKey};
use wire::event::Subject;
use wire::frame;
use wire::notice::Notice;
use wire::websocket::{CloseCode, Limits, Message, Opcode, push_frame};

use super::command::Command;
use super::sockets::close;
use crate::frames::wire_subject;
use crate::identity::Denial;
use crate::login_check::LoginVerdict;
use crate::session::{Checked, CommandError, Sessions};
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Extras};

/// Acts on bytes that the client of a session has sent. They are unmasked where they lie.
pub(crate) fn receive<D: Driver>(
    sessions: &mut Sessions,
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    mut input: &mut [u8],
) {
    let (now, limits) = (table.clock.now, table.limits);
    if let Some(connection) = table.get_mut(key) {
        connection.extras.remove(Extras::PINGED);
    }
    let kept = sessions.websockets.take(key.index);
    let kept_since = kept.as_ref().map(|it| it.since);
    let mut decoder = kept.map(|it| it.decoder).unwrap_or_default();
    let mut since = match kept_since {
        Some(since) if !decoder.is_idle() => since,
        _ => now,
    };
    loop {
        let message = match decoder.next(&mut input, &Limits::default()) {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(error) => {
                let (code, reason) = (error.code(), error.reason());
                return close(table, key, code, reason, CloseReason::Rejected);
            }
        };
        if !sessions.websockets.count_message(key.index, now, limits) {
            let reason = "the client sends too many messages";
            return close(table, key, CloseCode::POLICY, reason, CloseReason::Rejected);
        }
        if matches!(message, Message::Text(_) | Message::Binary(_)) {
            since = now;
        }
        answer(sessions, table, key, message);
        if table.session(key).is_none() {
            return;
        }
    }
    let is_new = kept_since != Some(since);
    if !decoder.is_idle()
        && !sessions
            .websockets
            .keep(key, decoder, since, is_new, limits)
    {
        sessions.websockets.refuse_unfinished(table, key);
    }
}

/// Answers a message.
fn answer<D: Driver>(
    sessions: &mut Sessions,
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    message: Message<'_>,
) {
    match message {
        Message::Text(text) => {
            table.stats.add(Metric::ClientMessages, 1);
            match Command::parse(&text) {
                Ok(Command::Publish(publication)) => {
                    let reference = publication.reference.clone();
                    if let Err(reason) = sessions.publish(table, key, *publication) {
                        refuse(table, key, &reason, reference.as_deref());
                    }
                }
                Ok(command) => obey(sessions, table, key, &command),
                Err(reason) => refuse(table, key, &reason, None),
            }
        }
        Message::Binary(_) => {
            let reason = "a message must be text";
            let code = CloseCode::UNSUPPORTED;
            close(table, key, code, reason, CloseReason::Rejected);
        }
        Message::Ping(payload) => {
            let mut out = table.scratch();
            push_frame(Opcode::Pong, &payload, &mut out);
            table.send(key, &out);
            table.put_back(out);
        }
        Message::Pong(_) => {}
        Message::Close(said) => {
            let code = said.map_or(CloseCode::NORMAL, |said| said.code);
            close(table, key, code, "", CloseReason::Peer);
        }
    }
}

/// Does what a client asks for, and tells it the outcome.
fn obey<D: Driver>(
    sessions: &mut Sessions,
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    command: &Command,
) {
    let done = match command {
        Command::Subscribe(ids) => match sessions.check_subscribe(table, key, ids) {
            Ok(Checked::Accepted) => subscribe(sessions, table, key, ids),
            Ok(Checked::Waits) => Ok(()),
            Err(error) => Err(error),
        },
        Command::Unsubscribe(ids) => sessions.unsubscribe(table, key, ids).map(|()| {
            notify(
                table,
                key,
                &Notice::Unsubscribed {
                    ids: &subjects(ids),
                },
            );
        }),
        Command::Renew(token) => sessions
            .renew(table, key, token)
            .map(|expires| notify(table, key, &Notice::Renewed { expires })),
        Command::Start(cursor) => sessions.start_after(table, key, cursor),
        // Answered when it is published.
        Command::Publish(_) => Ok(()),
    };
    match done {
        Ok(()) => {}
        Err(CommandError::Refused(reason)) => {
            refuse(table, key, &reason, None);
        }
        Err(CommandError::OtherSubject) => {
            let reason = "the token is not of the client that opened the session";
            close(table, key, CloseCode::POLICY, reason, CloseReason::Rejected);
        }
    }
}

/// Adds ids to those that a session follows, and tells its client.
fn subscribe<D: Driver>(
    sessions: &mut Sessions,
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    ids: &[Id],
) -> Result<(), CommandError> {
    sessions.subscribe(table, key, ids)?;
    let ids = &subjects(ids);
    notify(table, key, &Notice::Subscribed { ids });
    Ok(())
}

/// Goes on with a message of a client after the decision on its ids.
pub(crate) fn subscribe_checked<D: Driver>(
    sessions: &mut Sessions,
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    ids: &[Id],
    verdict: LoginVerdict,
) {
    let denial = match verdict {
        LoginVerdict::Accepted => None,
        LoginVerdict::Refused => Some(Denial::Declined),
        LoginVerdict::Undecided => Some(Denial::Undecided),
    };
    let done = match denial {
        None => subscribe(sessions, table, key, ids),
        Some(denial) => {
            table.stats.denied(denial.metric());
            Err(denial.into())
        }
    };
    if let Err(CommandError::Refused(reason)) = done {
        refuse(table, key, &reason, None);
    }
}

/// Tells the client of a session that its message was not obeyed.
pub(crate) fn refuse<D: Driver>(
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    reason: &str,
    reference: Option<&str>,
) {
    notify(table, key, &Notice::Refused { reason, reference });
}

/// Returns ids as the encoders take them.
fn subjects(ids: &[Id]) -> Vec<Subject<'_>> {
    ids.iter().map(wire_subject).collect()
}

/// Sends a notice to the client of a session.
pub(crate) fn notify<D: Driver>(table: &mut ConnectionTable<D>, key: SlotKey, notice: &Notice<'_>) {
    let Some(session) = table.session(key) else {
        return;
    };
    let mut out = table.scratch();
    let range = frame::notice(session.encoding, notice, &mut out).range(session.framing);
    table.send(key, &out[range]);
    table.put_back(out);
}
