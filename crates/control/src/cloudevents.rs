//! CloudEvents 1.0 to events: structured and binary requests, and elements of batches.
//!
//! Of a CloudEvent, the subject, the type and the data become the event. Its `id`, `source`, `time`
//! and extensions are checked where the specification demands them, and not kept: the event gets an
//! id of its own.

use std::borrow::Cow;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use graph::Id;
use router::{Event, EventType, Payload};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::json::{self, LEVELS_MAX};
use wire::percent::{Plus, decode};

use crate::json::{on_one_line, sentence};
use crate::problem::Problem;

/// Media type of one CloudEvent in the JSON format (CloudEvents JSON format 1.0.2, section 3).
pub(crate) const STRUCTURED: &str = "application/cloudevents+json";

/// Media type of a JSON array of CloudEvents (section 4).
pub(crate) const BATCH: &str = "application/cloudevents-batch+json";

/// Version of the specification that is understood.
const VERSION: &str = "1.0";

/// The part of a CloudEvent that is published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CloudEvent {
    /// The `subject`, if there is one.
    pub(crate) subject: Option<Id>,
    pub(crate) event_type: EventType,
    pub(crate) payload: Payload,
}

/// A CloudEvent in the JSON format. Members that are not named here are extensions.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    specversion: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    event_type: Cow<'a, str>,
    #[serde(borrow, default)]
    subject: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    datacontenttype: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data_base64: Option<Cow<'a, str>>,
}

impl CloudEvent {
    /// Parses a CloudEvent in the JSON format.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub(crate) fn of_json(text: &[u8]) -> Result<Self, String> {
        if !is_object(text) {
            return Err("it is not a CloudEvent: a CloudEvent is a JSON object".to_owned());
        }
        let envelope: Envelope<'_> = serde_json::from_slice(text)
            .map_err(|error| format!("it is not a CloudEvent: {}", sentence(&error)))?;
        // Extensions too: a reader of the whole event would meet them. The event is a level itself.
        json::check(text, LEVELS_MAX + 1).map_err(|error| error.to_string())?;
        let Envelope {
            specversion,
            id,
            source,
            event_type,
            subject,
            datacontenttype,
            data,
            data_base64,
        } = envelope;
        check(&specversion, &id, &source)?;
        let payload = match (data, data_base64) {
            (Some(_), Some(_)) => {
                return Err("it has both data and data_base64; send one of them".to_owned());
            }
            (None, None) => Payload::json(Bytes::from_static(b"null")),
            (None, Some(text)) => match STANDARD.decode(&*text) {
                Ok(bytes) => Payload::binary(bytes.into()),
                Err(error) => return Err(format!("data_base64 is not base64: {error}")),
            },
            (Some(data), None) => of_data(data.get(), datacontenttype.as_deref()),
        };
        Ok(Self {
            subject: subject.map(|id| subject_id(&id)).transpose()?,
            event_type: type_of(&event_type)?,
            payload,
        })
    }

    /// Returns the event, which must have a subject.
    ///
    /// # Errors
    ///
    /// A sentence that says that it has none.
    pub(crate) fn into_event(self) -> Result<Event, String> {
        let Self {
            subject,
            event_type,
            payload,
        } = self;
        let subject = subject.ok_or(
            "the CloudEvent has no subject, which is the id that the event is about; set it, or \
             publish to /v1/publish/{subject}",
        )?;
        Ok(Event {
            subject,
            event_type: Some(event_type),
            payload,
        })
    }
}

/// Returns the event of a batch's element that is a CloudEvent; `None` if it is none.
pub(crate) fn element(text: &[u8]) -> Option<Result<Event, String>> {
    #[derive(Deserialize)]
    struct Marked<'a> {
        #[serde(borrow, rename = "specversion")]
        _version: &'a RawValue,
    }
    if !is_object(text) {
        return None;
    }
    serde_json::from_slice::<Marked<'_>>(text).ok()?;
    Some(CloudEvent::of_json(text).and_then(CloudEvent::into_event))
}

/// Returns whether JSON begins as an object. The parser takes an array of its values for any
/// struct, too; nobody means that.
fn is_object(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

/// Attributes in the fields of a request whose body is the data (CloudEvents HTTP binding 1.0.2,
/// section 3.1).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BinaryMode {
    pub(crate) subject: Option<Id>,
    pub(crate) event_type: EventType,
}

impl BinaryMode {
    /// Reads the attributes of a request; `None` if it is no CloudEvent.
    ///
    /// # Errors
    ///
    /// When an attribute is missing, or not what the specification demands.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let field = |name: &'static str| -> Result<Option<Cow<'_, str>>, Problem> {
            let Some(value) = headers.get(name) else {
                return Ok(None);
            };
            let what = || format!("header {name}");
            let text = value
                .to_str()
                .map_err(|_| Problem::bad(&what(), "it is not ASCII; percent-encode it"))?;
            // Other characters are percent-encoded (section 3.1.3.2).
            let text = decode(text, Plus::Literal).map_err(|error| Problem::bad(&what(), error))?;
            Ok(Some(text))
        };
        let Some(version) = field("ce-specversion")? else {
            return Ok(None);
        };
        let needed = |name| {
            field(name)?.ok_or_else(|| Problem::bad(&format!("header {name}"), "it is missing"))
        };
        let of_fields = |why| Problem::bad("CloudEvent", why);
        check(&version, &needed("ce-id")?, &needed("ce-source")?).map_err(of_fields)?;
        let subject = field("ce-subject")?;
        Ok(Some(Self {
            subject: subject
                .map(|id| subject_id(&id))
                .transpose()
                .map_err(of_fields)?,
            event_type: type_of(&needed("ce-type")?).map_err(of_fields)?,
        }))
    }
}

/// Checks the attributes that every CloudEvent has (CloudEvents 1.0.2, section 3).
fn check(version: &str, id: &str, source: &str) -> Result<(), String> {
    if version != VERSION {
        return Err(format!(
            "specversion is {version:?}; this server understands \"{VERSION}\""
        ));
    }
    for (name, value) in [("id", id), ("source", source)] {
        if value.is_empty() {
            return Err(format!("{name} is empty"));
        }
    }
    Ok(())
}

fn subject_id(text: &str) -> Result<Id, String> {
    Id::parse(text).map_err(|error| format!("subject: {error}"))
}

fn type_of(text: &str) -> Result<EventType, String> {
    text.parse().map_err(|error| format!("type: {error}"))
}

/// Returns the payload of `data`: a string is text, unless its content type is JSON or missing, and
/// then a JSON value like all others.
fn of_data(data: &str, content_type: Option<&str>) -> Payload {
    let essence = content_type.map(|value| value.split(';').next().unwrap_or_default().trim());
    let is_json = essence.is_none_or(|essence| {
        let essence = essence.to_ascii_lowercase();
        essence == "application/json" || essence.ends_with("+json")
    });
    match serde_json::from_str::<String>(data) {
        Ok(text) if !is_json => Payload::text(text.into()),
        _ => Payload::json(on_one_line(data, |data| {
            Bytes::copy_from_slice(data.as_bytes())
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(members: &str) -> Result<CloudEvent, String> {
        CloudEvent::of_json(format!("{{{members}}}").as_bytes())
    }

    const FIXED: &str = r#""specversion":"1.0","id":"7","source":"/a","type":"note""#;

    #[test]
    fn an_array_of_the_values_of_an_event_is_none() {
        let array = br#" ["1.0","7","/a","note","rj","text/plain","hello",null]"#;
        let refused = CloudEvent::of_json(array).expect_err("it is an array");
        assert!(refused.contains("a JSON object"), "{refused}");
        assert!(element(br#"["1.0"]"#).is_none());
    }

    #[test]
    fn a_structured_event_has_the_payload_that_its_data_says() {
        for (members, payload) in [
            ("", Payload::json("null".into())),
            (r#","data":{"a":1}"#, Payload::json(r#"{"a":1}"#.into())),
            (r#","data":"text""#, Payload::json(r#""text""#.into())),
            (
                r#","data":"text","datacontenttype":"text/plain; charset=utf-8""#,
                Payload::text("text".into()),
            ),
            (
                r#","data":"text","datacontenttype":"application/LD+json""#,
                Payload::json(r#""text""#.into()),
            ),
            (
                r#","data":[1],"datacontenttype":"text/plain""#,
                Payload::json("[1]".into()),
            ),
            (
                r#","data_base64":"AP8=","extension":5"#,
                Payload::binary(b"\0\xff"[..].into()),
            ),
            (
                r#","data":null,"data_base64":null"#,
                Payload::json("null".into()),
            ),
        ] {
            let event = json(&format!("{FIXED}{members}")).expect(members);
            assert_eq!(event.payload, payload, "{members}");
            assert_eq!((event.event_type.as_str(), event.subject), ("note", None));
        }
    }

    #[test]
    fn what_is_no_cloud_event_is_told_what_it_needs() {
        for (members, says) in [
            (r#""id":"7","source":"/a","type":"t""#, "specversion"),
            (
                r#""specversion":"0.3","id":"7","source":"/a","type":"t""#,
                "understands \"1.0\"",
            ),
            (
                r#""specversion":"1.0","id":"","source":"/a","type":"t""#,
                "id is empty",
            ),
            (r#""specversion":"1.0","id":"7","source":"/a""#, "type"),
            (
                r#""specversion":"1.0","id":"7","source":"/a","type":"""#,
                "type: the event type is empty",
            ),
        ] {
            let error = json(members).expect_err(members);
            assert!(error.contains(says), "{error}");
        }
        for (members, says) in [
            (r#","subject":"""#, "subject"),
            (r#","data":1,"data_base64":"AA==""#, "both"),
            (r#","data_base64":"%""#, "not base64"),
        ] {
            let error = json(&format!("{FIXED}{members}")).expect_err(members);
            assert!(error.contains(says), "{error}");
        }
        assert!(CloudEvent::of_json(b"[]").is_err());
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (value, says) in [
            (deep(LEVELS_MAX + 1), "flatter"),
            (r#""\ud83d""#.into(), "both halves"),
        ] {
            for member in ["data", "extension"] {
                let error = json(&format!("{FIXED},\"{member}\":{value}"));
                let error = error.expect_err("some readers cannot read it");
                assert!(error.contains(says), "{error}");
            }
        }
        assert!(json(&format!("{FIXED},\"data\":{}", deep(LEVELS_MAX))).is_ok());
    }

    #[test]
    fn an_element_is_a_cloud_event_by_its_version() {
        assert!(element(br#"{"subject":"a","data":{"specversion":"1.0"}}"#).is_none());
        let whole = format!(r#"{{{FIXED},"subject":"rj","data":1}}"#);
        let event = element(whole.as_bytes())
            .expect("it is one")
            .expect("sound");
        assert_eq!(event.subject, Id::parse("rj").expect("an id"));
        let error = element(format!("{{{FIXED}}}").as_bytes()).expect("it is one");
        assert!(error.expect_err("no subject").contains("no subject"));
    }

    #[test]
    fn binary_mode_has_its_attributes_in_fields() {
        let read = |fields: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(*name, value.parse().expect("a value"));
            }
            BinaryMode::of_headers(&headers).map_err(|problem| problem.detail().to_owned())
        };
        let fixed = [
            ("ce-specversion", "1.0"),
            ("ce-id", "7"),
            ("ce-source", "/a"),
        ];
        assert_eq!(read(&[("content-type", "text/plain")]), Ok(None));
        let with = |more: &[(&'static str, &'static str)]| read(&[&fixed[..], more].concat());
        let found = with(&[("ce-type", "caf%C3%A9"), ("ce-subject", "a%20b")]);
        let found = found.expect("sound").expect("a CloudEvent");
        assert_eq!(found.event_type.as_str(), "café");
        assert_eq!(found.subject, Some(Id::parse("a b").expect("an id")));
        for (fields, says) in [
            (with(&[]), "header ce-type: it is missing"),
            (
                read(&[("ce-specversion", "2")]),
                "header ce-id: it is missing",
            ),
            (with(&[("ce-type", "%zz")]), "header ce-type"),
        ] {
            let error = fields.expect_err(says);
            assert!(error.contains(says), "{error}");
        }
    }
}
