//! `encke listen`: prints events to standard output, and the state of the connection to standard
//! error.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;
use cli::arguments::{AuthorityArguments, Report, transport};
use cli::failure::Failure;
use cli::output;
use cli::secret::Secret;
use client::decode::Transport;
use client::http::Url;
use client::listen::{self, Credential, Event, Notification, Options, Presence, Start};

pub(crate) const HELP: &str = "\
Prints payloads to standard output, one in each line, or whole events as JSON with --json. Messages
about the connection go to standard error.

A stream that breaks is opened again after its last event id, so that nothing is missed; an event
that comes a second time is not printed again. If events may be missing, standard error says so:
the server has no history, keeps it not long enough, or was started anew without it. --transport
test has no ids and misses what happens while it is not connected.

A server with identity wants a token or a ticket. Without ids, the stream is that of the token's own
id, or of all ids of the ticket.

Examples:
  encke listen rj
  encke listen alice bob --transport ndjson --json
  encke listen rj --count 1
  encke listen rj --rewind 10
  encke listen alice --presence
  encke listen rj --cursor tro8w0000z-17 --json
  encke listen --url https://push.example.com --token-file token";

#[derive(Debug, Args)]
pub(crate) struct ListenArguments {
    /// Ids to listen as
    #[arg(required_unless_present = "credential", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// URL of the public listener, http://HOST:PORT or https://HOST:PORT
    #[arg(long, env = "ENCKE_URL", default_value = "http://127.0.0.1:8000")]
    pub(crate) url: String,
    #[command(flatten)]
    credential: CredentialArguments,
    #[command(flatten)]
    pub(crate) authorities: AuthorityArguments,
    /// Format of the stream
    // A body of bytes has no events.
    #[arg(long, default_value_t = Transport::Sse, value_parser = transport(Transport::Raw))]
    pub(crate) transport: Transport,
    #[command(flatten)]
    start: StartArguments,
    /// Tell who is online of the ids that these ids subscribe to, if the server runs with
    /// --presence: on standard error, or with --json as objects without an id on standard output
    #[arg(long)]
    pub(crate) presence: bool,
    /// Stop after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Where in the stream to start, if not with what is published from now on.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct StartArguments {
    /// Start after this event id
    #[arg(long, value_name = "ID", value_parser = cursor)]
    cursor: Option<String>,
    /// Start with the oldest event that the server has
    #[arg(long)]
    earliest: bool,
    /// Start with the last N events of each subject
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    rewind: Option<u8>,
}

/// What proves who the client is.
#[derive(Debug, Args)]
#[group(id = "credential", multiple = false)]
struct CredentialArguments {
    /// Token that proves who you are (JWT). A file is safer, because other users of the machine can
    /// see command lines
    #[arg(
        long,
        value_name = "TOKEN",
        env = "ENCKE_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// File with the token that proves who you are
    #[arg(long, value_name = "FILE", env = "ENCKE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Ticket that proves who you are
    #[arg(
        long,
        value_name = "TICKET",
        // One in 64 tickets begins with a hyphen.
        allow_hyphen_values = true,
        env = "ENCKE_TICKET",
        hide_env_values = true
    )]
    ticket: Option<String>,
}

fn cursor(text: &str) -> Result<String, String> {
    match text {
        "" => Err("an event id is not empty".to_owned()),
        _ if text.chars().any(char::is_control) => {
            Err("an event id has no control characters".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

impl ListenArguments {
    /// Returns where in the stream to start.
    pub(crate) fn start(&self) -> Start {
        let start = &self.start;
        match (&start.cursor, start.rewind) {
            (Some(id), _) => Start::After(id.clone()),
            (None, Some(count)) => Start::Rewind(count),
            (None, None) if start.earliest => Start::Earliest,
            (None, None) => Start::Live,
        }
    }

    /// Returns the token or the ticket, if there is one.
    pub(crate) fn credential(&self) -> Result<Option<Credential>, Failure> {
        let given = &self.credential;
        let (secret, make): (_, fn(String) -> Credential) =
            match (&given.ticket, &given.token, &given.token_file) {
                (Some(ticket), ..) => (Secret::parse(ticket), Credential::Ticket),
                (None, Some(token), _) => (Secret::parse(token), Credential::Token),
                (None, None, Some(path)) => (Secret::read(path), Credential::Token),
                (None, None, None) => return Ok(None),
            };
        let secret = secret
            .map_err(|needed| Failure::misused(format_args!("the token is not valid: {needed}")))?;
        Ok(Some(make(secret.reveal().to_owned())))
    }
}

/// Prints events until there were enough of them, the server refuses, or standard output is closed.
pub(crate) fn run(arguments: &ListenArguments) -> Result<(), Failure> {
    Url::parse(&arguments.url).map_err(Failure::misused)?;
    if arguments.presence && arguments.transport == Transport::Chunks {
        return Err(Failure::misused(
            "--transport test has no place for presence: choose another one",
        ));
    }
    let options = Options {
        url: arguments.url.clone(),
        authorities: arguments.authorities.authorities(),
        ids: arguments.ids.clone(),
        credential: arguments.credential()?,
        transport: arguments.transport,
        start: arguments.start(),
        whole: arguments.report.json,
        presence: arguments.presence,
        // Clients of a server that failed must not reconnect at the same time.
        seed: RandomState::new().build_hasher().finish(),
    };
    let mut left = arguments.count;
    let mut broken = None;
    let never = AtomicBool::new(false);
    let mut online = Online::default();
    listen::listen(&options, &never, |news| {
        let told = tell(&news, arguments, &mut online);
        let reading = told.unwrap_or_else(|failure| {
            broken = Some(failure);
            ControlFlow::Break(())
        });
        if matches!(news, Notification::Event(_))
            && let Some(left) = &mut left
        {
            *left -= 1;
            if *left == 0 {
                return ControlFlow::Break(());
            }
        }
        reading
    })?;
    broken.map_or(Ok(()), Err)
}

fn tell(
    news: &Notification,
    arguments: &ListenArguments,
    online: &mut Online,
) -> Result<output::Reading, Failure> {
    match news {
        Notification::Event(event) => return tell_event(event, arguments.report),
        Notification::Presence(presence) if arguments.report.json => {
            return output::foreign_line(&presence.to_json().to_string());
        }
        Notification::Presence(presence) => {
            if let Some(line) = online.take(presence) {
                eprintln!("{}", output::escaped(&line));
            }
        }
        Notification::Connected(after) => {
            let names = match arguments.ids.as_slice() {
                [] => "what the token or ticket says".to_owned(),
                ids => ids.join(", "),
            };
            let after = after
                .as_ref()
                .map(|id| format!(", after {}", output::escaped(id)));
            let after = after.unwrap_or_default();
            eprintln!("listening at {} as {names}{after}", arguments.url);
        }
        Notification::Reset(reset) => {
            eprintln!("warning: {}", output::escaped(&reset.to_string()));
        }
        Notification::Gap(lost) => {
            let events = if *lost == 1 { "event" } else { "events" };
            eprintln!("warning: {lost} {events} lost: this client reads too slowly");
        }
        Notification::Lost(reason, wait) => {
            let reason = output::escaped(reason);
            eprintln!("{reason}; trying again in {:.1} s", wait.as_secs_f64());
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Ids that are online, by the notices up to now.
#[derive(Debug, Default)]
struct Online {
    ids: BTreeSet<String>,
    /// A snapshot whose last pieces have not arrived yet.
    snapshot: Option<BTreeSet<String>>,
    was_told: bool,
}

impl Online {
    /// Applies a notice. Returns a sentence if something has changed.
    fn take(&mut self, presence: &Presence) -> Option<String> {
        match presence {
            Presence::Snapshot {
                online,
                is_first,
                has_more,
            } => {
                if *is_first {
                    self.snapshot = Some(BTreeSet::new());
                }
                self.snapshot.as_mut()?.extend(online.iter().map(name));
                if *has_more {
                    return None;
                }
                let ids = self.snapshot.take()?;
                let is_new = !std::mem::replace(&mut self.was_told, true) || ids != self.ids;
                self.ids = ids;
                is_new.then(|| self.sentence())
            }
            Presence::Change { id, is_online } => {
                let id = name(id);
                let verb = if *is_online { "online" } else { "offline" };
                let sentence = format!("{id} is {verb}");
                let is_within = self.snapshot.is_some();
                let ids = self.snapshot.as_mut().unwrap_or(&mut self.ids);
                let is_new = if *is_online {
                    ids.insert(id)
                } else {
                    ids.remove(&id)
                };
                // A snapshot is shown when it is complete.
                (is_new && !is_within).then_some(sentence)
            }
        }
    }

    fn sentence(&self) -> String {
        if self.ids.is_empty() {
            return "online: nobody".to_owned();
        }
        let ids: Vec<&str> = self.ids.iter().map(String::as_str).collect();
        format!("online: {}", ids.join(", "))
    }
}

/// Returns an id without the quotes of JSON.
fn name(id: &serde_json::Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

fn tell_event(event: &Event, report: Report) -> Result<output::Reading, Failure> {
    if report.json {
        output::foreign_line(&output::as_json(event)?)
    } else {
        output::foreign_line(&event.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_of_presence_are_shown_and_snapshots_as_a_whole() {
        let mut online = Online::default();
        let snapshot = |ids: serde_json::Value, is_first, has_more| Presence::Snapshot {
            online: ids.as_array().cloned().unwrap_or_default(),
            is_first,
            has_more,
        };
        let change = |id: &str, is_online| Presence::Change {
            id: json!(id),
            is_online,
        };
        assert_eq!(online.take(&snapshot(json!(["rj", 7]), true, true)), None);
        assert_eq!(online.take(&change("bob", true)), None);
        let whole = online.take(&snapshot(json!(["alice"]), false, false));
        assert_eq!(whole.as_deref(), Some("online: 7, alice, bob, rj"));
        assert_eq!(online.take(&change("rj", true)), None);
        let left = online.take(&change("rj", false));
        assert_eq!(left.as_deref(), Some("rj is offline"));
        // Each response to a poll repeats the snapshot.
        assert_eq!(
            online.take(&snapshot(json!([7, "alice", "bob"]), true, false)),
            None
        );
        let none = online.take(&snapshot(json!([]), true, false));
        assert_eq!(none.as_deref(), Some("online: nobody"));
    }

    #[test]
    fn the_first_snapshot_is_shown_even_if_it_is_empty() {
        let nobody = Presence::Snapshot {
            online: Vec::new(),
            is_first: true,
            has_more: false,
        };
        let told = Online::default().take(&nobody);
        assert_eq!(told.as_deref(), Some("online: nobody"));
    }
}
