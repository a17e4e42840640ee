//! Messages of clients to commands: a JSON object with one member.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use graph::Id;
use router::{Event, EventType, Payload};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::json::{LEVELS_MAX, check};
use wire::target::IDS_MAX;

use crate::limits::REFERENCE_BYTES_MAX;

/// What the client of a session asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Follow these ids too.
    Subscribe(Vec<Id>),
    /// No longer follow these ids.
    Unsubscribe(Vec<Id>),
    /// Live as long as this token.
    Renew(Box<str>),
    /// Begin after this cursor.
    Start(Box<str>),
    /// Publish an event.
    Publish(Box<Publication>),
}

/// Event that a client publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publication {
    /// The event, or a sentence about what is wrong with it.
    pub(crate) event: Result<Event, String>,
    /// What the client calls its message.
    pub(crate) reference: Option<Box<str>>,
}

/// A command as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Written<'a> {
    Subscribe(Vec<Id>),
    Unsubscribe(Vec<Id>),
    Token(Box<str>),
    Cursor(Box<str>),
    #[serde(borrow)]
    Publish(&'a RawValue),
}

/// An event as it is written, like those that clients receive.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEvent<'a> {
    subject: Id,
    #[serde(rename = "type", default)]
    event_type: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(rename = "ref", default)]
    reference: Option<Box<str>>,
}

impl Command {
    /// Parses a message. The error is a sentence for the client.
    pub(super) fn parse(message: &str) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| {
            // What it repeats of the message may be long.
            let error: String = error.to_string().chars().take(200).collect();
            format!(
                "a message is an object with one member: subscribe, unsubscribe, token, cursor or \
                 publish ({error})"
            )
        };
        let written = serde_json::from_str(message).map_err(wrong)?;
        Ok(match written {
            Written::Subscribe(ids) => Self::Subscribe(each_once(ids)?),
            Written::Unsubscribe(ids) => Self::Unsubscribe(each_once(ids)?),
            Written::Token(token) => Self::Renew(token),
            Written::Cursor(cursor) => Self::Start(cursor),
            // A struct could be spelt as an array as well; nobody means that.
            Written::Publish(event) if !event.get().starts_with('{') => {
                return Err("publish must be an object with subject and data".to_owned());
            }
            Written::Publish(event) => {
                let written: WrittenEvent<'_> = serde_json::from_str(event.get()).map_err(wrong)?;
                Self::Publish(Box::new(written.publication()?))
            }
        })
    }
}

impl WrittenEvent<'_> {
    fn publication(self) -> Result<Publication, String> {
        if let Some(reference) = &self.reference
            && reference.len() > REFERENCE_BYTES_MAX
        {
            return Err(format!(
                "ref has {} bytes; at most {REFERENCE_BYTES_MAX} are possible",
                reference.len()
            ));
        }
        let event_type = self.event_type.as_deref().map(str::parse::<EventType>);
        let payload = payload(self.data, self.encoding.as_deref());
        let (subject, reference) = (self.subject, self.reference);
        let event = match event_type.transpose() {
            Err(error) => Err(error.to_string()),
            Ok(event_type) => payload.map(|payload| Event {
                subject,
                event_type,
                payload,
            }),
        };
        Ok(Publication { event, reference })
    }
}

/// Returns the payload that `data` and `encoding` say: a string is a text, and every other value is
/// JSON.
fn payload(data: &RawValue, encoding: Option<&str>) -> Result<Payload, String> {
    let json = data.get();
    check(json.as_bytes(), LEVELS_MAX).map_err(|error| format!("data: {error}"))?;
    let text = || -> Result<String, String> {
        serde_json::from_str(json).map_err(|_| "data is not a string".to_owned())
    };
    match encoding {
        None if json.starts_with('"') => Ok(Payload::text(text()?.into())),
        // A raw line break in valid JSON is white space between tokens (RFC 8259, section 2).
        None => Ok(Payload::json(json.replace(['\r', '\n'], " ").into())),
        Some("base64") => match STANDARD.decode(text()?) {
            Ok(bytes) => Ok(Payload::binary(bytes.into())),
            Err(_) => Err("data is not base64 with padding (RFC 4648, section 4)".to_owned()),
        },
        Some(_) => Err("encoding must be base64, or left out".to_owned()),
    }
}

fn each_once(written: Vec<Id>) -> Result<Vec<Id>, String> {
    if written.is_empty() || written.len() > IDS_MAX {
        return Err(format!(
            "a message must name 1 to {IDS_MAX} ids, and this one names {}",
            written.len()
        ));
    }
    let mut ids = Vec::with_capacity(written.len());
    for id in written {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::parse(text).expect("an id")
    }

    #[test]
    fn ids_are_strings_or_integers_and_each_counts_once() {
        let parsed = Command::parse(r#" {"subscribe": ["a", 7, "7", "a"]} "#);
        assert_eq!(parsed, Ok(Command::Subscribe(vec![id("a"), id("7")])));
        let parsed = Command::parse(r#"{"unsubscribe":["a"]}"#);
        assert_eq!(parsed, Ok(Command::Unsubscribe(vec![id("a")])));
        let parsed = Command::parse(r#"{"token":"a.b.c"}"#);
        assert_eq!(parsed, Ok(Command::Renew("a.b.c".into())));
        let parsed = Command::parse(r#"{"cursor":"e-7"}"#);
        assert_eq!(parsed, Ok(Command::Start("e-7".into())));
    }

    // Fuzzing found an event that was written as the list of its values, and was published: the
    // parser takes a list for any struct. The input is harness/fuzz/crashes/command/event_as_array.
    #[test]
    fn an_event_that_is_no_object_is_refused() {
        for event in [r#"[2,"two","2"]"#, r#""x""#, "7", "null"] {
            let refused = Command::parse(&format!("{{\"publish\": {event}}}"));
            let why = refused.expect_err("it is no object");
            assert!(why.contains("publish must be an object"), "{why}");
        }
    }

    fn published(message: &str) -> Result<Event, String> {
        match Command::parse(message) {
            Ok(Command::Publish(publication)) => publication.event,
            other => panic!("{message}: {other:?}"),
        }
    }

    #[test]
    fn an_event_is_written_as_clients_receive_it() {
        let event = |payload| {
            Ok(Event {
                subject: id("news"),
                event_type: None,
                payload,
            })
        };
        for (data, payload) in [
            (r#""a\nb""#, Payload::text("a\nb".into())),
            (
                r#""AP8=","encoding":"base64""#,
                Payload::binary(b"\0\xff"[..].into()),
            ),
            (
                "{ \"a\":\r\n[1.50,null]}",
                Payload::json("{ \"a\":  [1.50,null]}".into()),
            ),
            ("null", Payload::json("null".into())),
        ] {
            let message = format!("{{\"publish\":{{\"subject\":\"news\",\"data\":{data}}}}}");
            assert_eq!(published(&message), event(payload), "{data}");
        }
        let whole = r#"{"publish":{"ref":"7","type":"note","subject":7,"data":"x"}}"#;
        let Ok(Command::Publish(publication)) = Command::parse(whole) else {
            panic!("it is well-formed");
        };
        assert_eq!(publication.reference.as_deref(), Some("7"));
        let event = publication.event.expect("it is well-formed");
        assert_eq!(event.subject, id("7"));
        assert_eq!(event.event_type.expect("it has one").as_str(), "note");
    }

    #[test]
    fn an_event_that_is_not_well_formed_is_refused_under_the_name_of_its_message() {
        for rest in [
            r#""data":"x","type":"""#,
            r#""data":"x","type":"a\nb""#,
            r#""data":"x","encoding":"hex""#,
            r#""data":"x","encoding":"base64""#,
            r#""data":7,"encoding":"base64""#,
            r#""data":["\ud83d"]"#,
            r#""data":"\ud83d""#,
            &format!(r#""data":{}{}"#, "[".repeat(129), "]".repeat(129)),
        ] {
            let message = format!("{{\"publish\":{{\"subject\":\"a\",\"ref\":\"r\",{rest}}}}}");
            let Ok(Command::Publish(publication)) = Command::parse(&message) else {
                panic!("{message}");
            };
            assert!(publication.event.is_err(), "{message}");
            assert_eq!(publication.reference.as_deref(), Some("r"), "{message}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_sentence_of_bounded_length() {
        let many = format!("{{\"subscribe\":[{}1]}}", "1,".repeat(IDS_MAX));
        let long = format!("{{\"{}\":1}}", "x".repeat(60_000));
        let reference = "x".repeat(REFERENCE_BYTES_MAX + 1);
        let reference =
            format!(r#"{{"publish":{{"subject":"a","data":"a","ref":"{reference}"}}}}"#);
        let empty_id = r#"{"subscribe":[""]}"#;
        for message in [
            "",
            "{}",
            "[]",
            "7",
            "null",
            r#""subscribe""#,
            r#"{"subscribe":[]}"#,
            r#"{"subscribe":"a"}"#,
            r#"{"subscribe":[null]}"#,
            r#"{"subscribe":[-1]}"#,
            r#"{"subscribe":["a"],"unsubscribe":["b"]}"#,
            r#"{"subscribe":["a"],"subscribe":["b"]}"#,
            r#"{"follow":["a"]}"#,
            r#"{"subscribe":["a"]} {}"#,
            r#"{"token":7}"#,
            r#"{"cursor":null}"#,
            r#"{"publish":"a"}"#,
            r#"{"publish":{"subject":"a"}}"#,
            r#"{"publish":{"data":"a"}}"#,
            r#"{"publish":{"subject":"","data":"a"}}"#,
            r#"{"publish":{"subject":"a","data":}}"#,
            r#"{"publish":{"subject":"a","data":"a","to":"b"}}"#,
            r#"{"publish":{"subject":"a","subject":"b","data":"a"}}"#,
            r#"{"publish":{"subject":"a","data":"a","ref":7}}"#,
            r#"{"publish":{"subject":"a","data":"a"},"token":"b"}"#,
            &reference,
            &many,
            &long,
            empty_id,
        ] {
            let refused = Command::parse(message).expect_err(message);
            assert!(refused.len() < 1000, "{} bytes", refused.len());
        }
    }
}
