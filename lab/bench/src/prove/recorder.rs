//! Recording of a server during the experiment.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use machine::failure::{Context, Failure, Outcome};
use machine::interrupt::Interrupt;
use recorder::record::probe::Probe;
use recorder::record::process::ProcessSelector;
use recorder::record::{self, Sampling, SystemClock};

/// Interval of rows: fine enough for the shortest experiment, and few rows for the longest.
const EVERY: Duration = Duration::from_millis(500);

/// Running recording.
#[derive(Debug)]
pub(super) struct Recorder {
    stop: Interrupt,
    started: Instant,
    thread: JoinHandle<std::io::Result<Vec<u8>>>,
}

impl Recorder {
    /// Starts to record process `pid` and the connections of `port`.
    pub(super) fn start(pid: u32, port: u16) -> Outcome<Self> {
        let whom = Some(ProcessSelector::Pid(pid));
        let mut probe = Probe::start(whom, port)?;
        let stop = Interrupt::default();
        let mut sleep = SystemClock::from_now(stop.clone());
        let started = Instant::now();
        let thread = thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || {
                let mut rows = Vec::new();
                let pace = Sampling {
                    every: EVERY,
                    duration: None,
                };
                record::run(|| probe.read(), pace, &mut sleep, &mut rows, |_| {})?;
                Ok(rows)
            })
            .context("starting the thread that records")?;
        Ok(Self {
            stop,
            started,
            thread,
        })
    }

    /// Returns the seconds since the start, as in the rows.
    pub(super) fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the bytes of all kernel objects at present.
    pub(super) fn kernel(&self) -> u64 {
        record::kernel_slab_bytes().unwrap_or(0)
    }

    /// Stops the recording and returns it as the text of a file.
    pub(super) fn stop(self) -> Outcome<String> {
        self.stop.ask();
        let rows = self.thread.join().expect("the recorder does not panic");
        let rows = rows.context("recording")?;
        String::from_utf8(rows).map_err(|_| Failure::new("the recording is not valid UTF-8"))
    }
}
