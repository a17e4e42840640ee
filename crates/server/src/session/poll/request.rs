//! What a request asks of its poll.

use std::time::Duration;

use wire::encoding::Format;
use wire::head::Request;
use wire::start::Start;
use wire::status::Status;
use wire::target;

use super::batch::BatchFormat;
use crate::answer::Answer;
use crate::limits::{POLL_WAIT, POLL_WAIT_MAX};
use crate::refusal::NO_MESSAGES;
use crate::stream_query::{accepts_cloud_events, asks_for_presence};

/// What a request asks of its poll.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PollRequest<'a> {
    pub(crate) start: Start<'a>,
    pub(crate) format: BatchFormat,
    /// How long to wait for an event.
    pub(crate) wait: Duration,
    /// Whether the client asks to be told who is online.
    pub(crate) presence: bool,
}

impl<'a> PollRequest<'a> {
    /// Returns what a request asks for. The error is the answer to one that is not valid.
    pub(crate) fn of(request: &Request<'a>, is_presence_kept: bool) -> Result<Self, Answer> {
        let refuse = |reason: &'static str| Answer::error(Status::BAD_REQUEST, reason);
        let start = Start::of(request).map_err(|error| refuse(error.reason()))?;
        if start == Start::InMessage {
            return Err(refuse(NO_MESSAGES));
        }
        let format = format(request)?;
        let presence = asks_for_presence(request, is_presence_kept)?;
        if presence && format == BatchFormat::CloudEvents {
            return Err(refuse(
                "a batch of CloudEvents has no place for presence; leave presence out, or use \
                 format=json",
            ));
        }
        Ok(Self {
            start,
            format,
            wait: wait(request)?,
            presence,
        })
    }
}

fn format(request: &Request<'_>) -> Result<BatchFormat, Answer> {
    const FORMATS: [(Format, BatchFormat); 2] = [
        (Format::Json, BatchFormat::Json),
        (Format::CloudEvents, BatchFormat::CloudEvents),
    ];
    let unknown = || {
        let reason = "the format is not known on this path; leave format out, or use json or \
                      cloudevents";
        Answer::error(Status::BAD_REQUEST, reason)
    };
    match target::query_value(request.query, "format") {
        Ok(None) if accepts_cloud_events(request) => Ok(BatchFormat::CloudEvents),
        Ok(None) => Ok(BatchFormat::Json),
        Ok(Some(name)) => FORMATS
            .into_iter()
            .find(|(format, _)| format.name() == name)
            .map(|(_, format)| format)
            .ok_or_else(unknown),
        Err(_) => Err(unknown()),
    }
}

fn wait(request: &Request<'_>) -> Result<Duration, Answer> {
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    match target::query_value(request.query, "wait") {
        Ok(None) => Some(POLL_WAIT),
        Ok(Some(text)) => number(&text)
            .map(Duration::from_secs)
            .filter(|&wait| wait <= POLL_WAIT_MAX),
        Err(_) => None,
    }
    .ok_or_else(|| {
        let reason = "wait is how many seconds to wait for an event: a number from 0 to 60";
        Answer::error(Status::BAD_REQUEST, reason)
    })
}
