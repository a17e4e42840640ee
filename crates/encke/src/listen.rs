//! `encke listen`: events on standard output, the connection's fate on standard error.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use client::decode::Transport as Wire;
use client::http::Url;
use client::listen::{Event, Notification, Options};

use crate::arguments::{ListenArguments, Report, Transport};
use crate::failure::Failure;
use crate::output;

/// Prints events until there were enough, the server refuses for good, or nobody reads.
pub(crate) fn run(arguments: &ListenArguments) -> Result<(), Failure> {
    Url::parse(&arguments.url).map_err(Failure::misused)?;
    let options = Options {
        url: arguments.url.clone(),
        authorities: arguments.authorities.authorities(),
        ids: arguments.ids.clone(),
        credential: arguments.credential()?,
        transport: match arguments.transport {
            Transport::Sse => Wire::Sse,
            Transport::Ndjson => Wire::Ndjson,
            Transport::Test => Wire::Chunks,
        },
        // Clients of a server that fell must not come back in step.
        seed: RandomState::new().build_hasher().finish(),
    };
    let mut left = arguments.count;
    let mut broken = None;
    let never = AtomicBool::new(false);
    client::listen::listen(&options, &never, |news| {
        let told = tell(&news, arguments);
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

fn tell(news: &Notification, arguments: &ListenArguments) -> Result<output::Reading, Failure> {
    match news {
        Notification::Event(event) => return tell_event(event, arguments.report),
        Notification::Connected => {
            let names = match arguments.ids.as_slice() {
                [] => "what the token or ticket says".to_owned(),
                ids => ids.join(", "),
            };
            eprintln!("listening at {} as {names}", arguments.url);
        }
        Notification::Lost(reason, wait) => {
            let reason = output::escaped(reason);
            eprintln!("{reason}; trying again in {:.1} s", wait.as_secs_f64());
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn tell_event(event: &Event, report: Report) -> Result<output::Reading, Failure> {
    if report.json {
        output::foreign_line(&output::as_json(event)?)
    } else {
        output::foreign_line(&event.text())
    }
}
