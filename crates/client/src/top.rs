//! Rates of a running program: the differences of two snapshots of its counters (`encke top`).
//!
//! Must never cost the program more than a scrape of its metrics does. The one exception is the
//! list of slowest sessions, which is requested only when some session has a backlog.

/// A snapshot of a program's counters: the answer to `GET /v1/stats`.
pub mod snapshot;
/// Rates and gauges computed from two snapshots.
pub mod view;

use std::time::Duration;

use serde_json::Value;

use crate::control_client::ControlClient;
use machine::failure::Outcome;

use snapshot::Snapshot;
use view::View;

/// Time that a server may take to answer before it counts as unreachable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Sessions that are requested of the list of slowest sessions.
const SLOWEST_MAX: usize = 10;

/// A client of one server that takes snapshots of its counters.
#[derive(Debug)]
pub struct Monitor {
    control: ControlClient,
    /// The last snapshot; `None` before the first one and after an error.
    before: Option<Snapshot>,
}

/// Result of one sample.
#[derive(Debug)]
pub enum Sample {
    /// Rates since the sample before.
    View(Box<View>),
    /// There is nothing to compare with: this is the first sample of this run of the server.
    First,
}

impl Monitor {
    /// Returns a monitor that has taken no sample yet.
    pub fn new(mut control: ControlClient) -> Self {
        control.set_read_timeout(ANSWER_TIMEOUT);
        Self {
            control,
            before: None,
        }
    }

    /// Takes a snapshot of the server's counters and compares it with the one before.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, refuses, or lacks a counter that is shown. The next
    /// sample that succeeds is [`Sample::First`].
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

    /// Requests the slowest sessions. Returns `None` on any error: a stuck worker, which delays
    /// this report, must not hide the rest of the view.
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

    /// Returns a client of a server whose counters grow, and whose workers do not report.
    fn stuck() -> ControlClient {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let mut samples = 0_u32;
            // The client does not reuse a connection after an error.
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    let (status, body) = match line.split(' ').nth(1) {
                        Some("/v1/stats") => {
                            samples += 1;
                            ("200 OK", stats(samples.into(), samples.into()))
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
    fn a_view_is_complete_but_for_the_slowest_sessions_if_workers_do_not_report() {
        let mut monitor = Monitor::new(stuck());
        assert!(matches!(monitor.sample(), Ok(Sample::First)));
        for _ in 0..2 {
            let Ok(Sample::View(view)) = monitor.sample() else {
                panic!("the counters can be read")
            };
            assert!(view.totals.sessions.unwrap().backlog_sessions > 0);
            assert!(view.totals.accepts_per_second > 0.0);
            assert_eq!(view.push.unwrap().slowest, None);
        }
    }
}
