//! `encke subscribe` and `encke unsubscribe`.

use std::fmt;

use serde::Serialize;

use crate::arguments::SubscribeArguments;
use crate::failure::Failure;
use crate::output;

/// One edge, as it is reported.
#[derive(Debug, Serialize)]
struct Edge<'a> {
    subscriber: &'a str,
    subject: &'a str,
    /// Whether it holds now.
    subscribed: bool,
    /// Whether it was otherwise before.
    changed: bool,
}

impl fmt::Display for Edge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subscriber,
            subject,
            ..
        } = self;
        match (self.subscribed, self.changed) {
            (true, true) => write!(f, "{subscriber} is subscribed to {subject}"),
            (true, false) => write!(f, "{subscriber} was already subscribed to {subject}"),
            (false, true) => write!(f, "{subscriber} is no longer subscribed to {subject}"),
            (false, false) => write!(f, "{subscriber} was not subscribed to {subject}"),
        }
    }
}

/// Makes edges.
pub(crate) fn subscribe(arguments: &SubscribeArguments) -> Result<(), Failure> {
    change(arguments, true)
}

/// Ends them.
pub(crate) fn unsubscribe(arguments: &SubscribeArguments) -> Result<(), Failure> {
    change(arguments, false)
}

fn change(arguments: &SubscribeArguments, subscribed: bool) -> Result<(), Failure> {
    let mut client = arguments.control.client()?;
    let subscriber = arguments.subscriber.as_str();
    for subject in &arguments.subjects {
        let changed = if subscribed {
            client.subscribe(subscriber, subject)?
        } else {
            client.unsubscribe(subscriber, subject)?
        };
        let edge = Edge {
            subscriber,
            subject,
            subscribed,
            changed,
        };
        let told = if arguments.report.json {
            output::json(&edge)
        } else {
            output::line(edge)
        };
        // All edges are changed, whether or not anybody reads of it.
        let _ = told?;
    }
    Ok(())
}
