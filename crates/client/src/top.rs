//! What a running program is at: its counters read twice, and what happened in between.
//!
//! Must never ask it for more than a scrape of its metrics would, but for its slowest readers, and
//! for those only when it has some.

/// What a program counts, as it says so.
pub mod snapshot;
/// What happened between two readings, by the second.
pub mod view;

use std::time::Duration;

use serde_json::Value;

use crate::control_client::ControlClient;
use machine::failure::Outcome;

use snapshot::Snapshot;
use view::View;

/// How long a server may take to answer before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Slow readers that are asked for.
const SLOWEST_MAX: usize = 10;

/// Looks at one server again and again.
#[derive(Debug)]
pub struct Monitor {
    control: ControlClient,
    before: Option<Snapshot>,
}

/// What a look has shown.
#[derive(Debug)]
pub enum Sample {
    /// What happened since the look before.
    View(Box<View>),
    /// The server is another than at the look before, or this was the first: the next will tell.
    First,
}

impl Monitor {
    /// Nothing is looked at yet.
    pub fn new(mut control: ControlClient) -> Self {
        control.set_read_timeout(PATIENCE);
        Self {
            control,
            before: None,
        }
    }

    /// Reads the server's counters.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, refuses, or does not count what this program shows. The
    /// next look that succeeds is a first one again.
    pub fn sample(&mut self) -> Outcome<Sample> {
        let before = self.before.take();
        let now = Snapshot::parse(&self.control.stats()?)?;
        let view = before.and_then(|before| View::between(&before, &now));
        self.before = Some(now);
        let Some(mut view) = view else {
            return Ok(Sample::First);
        };
        let sessions = view.totals.sessions.as_ref();
        if let Some(push) = &mut view.push
            && sessions.is_some_and(|sessions| sessions.backlog_sessions > 0)
        {
            push.slowest = self.slowest();
        }
        Ok(Sample::View(Box::new(view)))
    }

    /// Nothing when the workers do not report: one that is stuck must not hide what else is known.
    fn slowest(&mut self) -> Option<Vec<Value>> {
        match self.control.slowest(SLOWEST_MAX).ok()?["sessions"].take() {
            Value::Array(sessions) => Some(sessions),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::snapshot::tests::stats;
    use super::*;

    /// A server that has counted more each time, and whose workers do not report.
    fn stuck() -> ControlClient {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let mut looks = 0_u32;
            // A connection on which a call was refused is not used again.
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    let (status, body) = match line.split(' ').nth(1) {
                        Some("/v1/stats") => {
                            looks += 1;
                            ("200 OK", stats(looks.into(), looks.into()))
                        }
                        Some("/v1/slowest?limit=10") => ("504 Late", Value::Null),
                        _ => continue,
                    };
                    let body = body.to_string();
                    let length = body.len();
                    write!(
                        stream,
                        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                         Content-Length: {length}\r\n\r\n{body}"
                    )
                    .unwrap();
                }
            }
        });
        ControlClient::new(&url, None).unwrap()
    }

    #[test]
    fn workers_that_do_not_report_hide_nothing_else() {
        let mut watch = Monitor::new(stuck());
        assert!(matches!(watch.sample(), Ok(Sample::First)));
        for _ in 0..2 {
            let Ok(Sample::View(view)) = watch.sample() else {
                panic!("the counters can be read")
            };
            assert!(view.totals.sessions.unwrap().backlog_sessions > 0);
            assert!(view.totals.accepts_per_second > 0.0);
            assert_eq!(view.push.unwrap().slowest, None);
        }
    }
}
