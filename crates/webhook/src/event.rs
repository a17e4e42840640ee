//! Events, and their JSON.

use std::str::FromStr;

use graph::Id;
use serde::Serialize;

/// Event for the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The server has started. Sessions that this node had before are gone.
    Start,
    /// A session began.
    Connect {
        /// Name of the session.
        session: &'a str,
        /// The ids that it is logged in as, at least one.
        ids: &'a [Id],
        /// Name of its transport.
        transport: &'a str,
    },
    /// A session ended.
    Disconnect {
        /// Name of the session.
        session: &'a str,
        /// The ids that it was logged in as when it ended.
        ids: &'a [Id],
        /// Name of its transport.
        transport: &'a str,
        /// Reason of its end.
        reason: &'a str,
    },
    /// An id came online or went offline.
    Presence {
        /// The id.
        id: &'a Id,
        /// Whether it is online.
        online: bool,
    },
    /// Events before this one were dropped.
    Missed {
        /// Their number.
        events: u64,
    },
}

/// Configured types of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTypes {
    /// Beginnings of sessions.
    pub connects: bool,
    /// Ends of sessions.
    pub disconnects: bool,
    /// Ids that come online or go offline.
    pub presence: bool,
}

/// The JSON object of an event.
#[derive(Default, Serialize)]
struct Object<'a> {
    #[serde(rename = "type")]
    event_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    /// All ids of a session that has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a [Id]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    time: u64,
}

impl Event<'_> {
    /// Returns whether the event has one of `types`. A start is sent to receivers of events of
    /// sessions.
    pub(crate) const fn is_of(&self, types: EventTypes) -> bool {
        match self {
            Self::Start => types.connects || types.disconnects,
            Self::Connect { .. } => types.connects,
            Self::Disconnect { .. } => types.disconnects,
            Self::Presence { .. } => types.presence,
            Self::Missed { .. } => true,
        }
    }

    /// Writes the event as JSON. `time` is in seconds since 1970.
    pub(crate) fn to_json(self, node: Option<&str>, time: u64) -> Vec<u8> {
        let bare = |event_type| Object {
            event_type,
            node,
            time,
            ..Object::default()
        };
        let object = match self {
            Self::Start => bare("start"),
            Self::Connect {
                session,
                ids,
                transport,
            } => Object {
                id: ids.first(),
                ids: Some(ids).filter(|ids| ids.len() > 1),
                session: Some(session),
                transport: Some(transport),
                ..bare("connect")
            },
            Self::Disconnect {
                session,
                ids,
                transport,
                reason,
            } => Object {
                id: ids.first(),
                ids: Some(ids).filter(|ids| ids.len() > 1),
                session: Some(session),
                transport: Some(transport),
                reason: Some(reason),
                ..bare("disconnect")
            },
            Self::Presence { id, online } => Object {
                id: Some(id),
                ..bare(if online { "online" } else { "offline" })
            },
            Self::Missed { events } => Object {
                events: Some(events),
                ..bare("missed")
            },
        };
        serde_json::to_vec(&object).expect("texts and numbers can be written as JSON")
    }
}

impl FromStr for EventTypes {
    type Err = String;

    /// Parses a list like `connects,disconnects`. The error is a sentence for the operator.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut types = Self::default();
        for name in text.split(',').map(str::trim) {
            match name {
                "connects" => types.connects = true,
                "disconnects" => types.disconnects = true,
                "presence" => types.presence = true,
                _ => {
                    return Err(format!(
                        "`{name}` is not a type of event; expected connects, disconnects, \
                         presence, or several of them separated by commas"
                    ));
                }
            }
        }
        Ok(types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(event: Event<'_>, node: Option<&str>) -> String {
        String::from_utf8(event.to_json(node, 1_790_000_000)).unwrap()
    }

    #[test]
    fn an_event_has_what_there_is_to_say_and_no_more() {
        let ids: [Id; 2] = ["7".parse().unwrap(), "a\"b".parse().unwrap()];
        let (session, transport) = ("0:1:2", "sse");
        assert_eq!(
            json(Event::Start, None),
            r#"{"type":"start","time":1790000000}"#
        );
        let ids_of = |ids| Event::Connect {
            session,
            ids,
            transport,
        };
        assert_eq!(
            json(ids_of(&ids[..1]), Some("n1")),
            r#"{"type":"connect","id":7,"session":"0:1:2","transport":"sse","node":"n1","#
                .to_owned()
                + r#""time":1790000000}"#
        );
        let ended = Event::Disconnect {
            session,
            ids: &ids,
            transport,
            reason: "peer",
        };
        assert_eq!(
            json(ended, None),
            r#"{"type":"disconnect","id":7,"ids":[7,"a\"b"],"session":"0:1:2","#.to_owned()
                + r#""transport":"sse","reason":"peer","time":1790000000}"#
        );
        let online = |online| Event::Presence {
            id: &ids[1],
            online,
        };
        assert_eq!(
            json(online(true), None),
            r#"{"type":"online","id":"a\"b","time":1790000000}"#
        );
        assert!(json(online(false), None).starts_with(r#"{"type":"offline""#));
        assert_eq!(
            json(Event::Missed { events: 3 }, None),
            r#"{"type":"missed","events":3,"time":1790000000}"#
        );
    }

    #[test]
    fn types_are_named_or_refused() {
        let types: EventTypes = "connects, presence".parse().unwrap();
        assert!(types.connects && types.presence && !types.disconnects);
        let error = "connects,logins".parse::<EventTypes>().unwrap_err();
        assert!(
            error.starts_with("`logins` is not a type of event"),
            "{error}"
        );
        assert!("".parse::<EventTypes>().is_err());
    }
}
