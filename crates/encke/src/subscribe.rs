//! `encke subscribe` and `encke unsubscribe`.

use serde::Serialize;

use crate::arguments::SubscribeArguments;
use crate::failure::Failure;
use crate::output;

/// One edge, as it is reported.
#[derive(Debug, Serialize)]
struct Edge<'a> {
    subscriber: &'a str,
    subject: &'a str,
    subscribed: bool,
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
        if subscribed {
            client.subscribe(subscriber, subject)?;
        } else {
            client.unsubscribe(subscriber, subject)?;
        }
        let told = if arguments.report.json {
            output::json(&Edge {
                subscriber,
                subject,
                subscribed,
            })
        } else if subscribed {
            output::line(format_args!("{subscriber} is subscribed to {subject}"))
        } else {
            output::line(format_args!("{subscriber} is not subscribed to {subject}"))
        };
        // All edges are changed, whether or not anybody reads of it.
        let _ = told?;
    }
    Ok(())
}
