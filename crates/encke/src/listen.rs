//! `encke listen`: prints events to standard output, and the state of the connection to standard
//! error.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use cli::arguments::Report;
use cli::failure::Failure;
use cli::output;
use client::decode::Transport;
use client::http::Url;
use client::listen::{self, Event, Notification, Options, Presence};

use crate::arguments::ListenArguments;

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
