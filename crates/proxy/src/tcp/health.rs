//! Backends looked after: a connection now and then, and perhaps a question and its answer.
//!
//! One worker does this for all. What it finds, all workers see in the backend.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Received, Relay, Sent, Tick};

use crate::tcp::backend::Backend;
use crate::tcp::connect::is_ours;
use crate::tcp::front::{Front, Plan};
use crate::tcp::limits::EXPECT_BYTES_MAX;
use crate::tcp::names::Watched;
use crate::tcp::settings::Check;
use crate::tcp::worker::Worker;

/// All backends that are looked after.
#[derive(Debug)]
pub(crate) struct Health<S> {
    patients: Vec<Patient<S>>,
    /// The number of the latest attempt: a late signal of an earlier one is nobody's.
    attempts: u32,
}

impl<S> Default for Health<S> {
    fn default() -> Self {
        Self {
            patients: Vec::new(),
            attempts: 0,
        }
    }
}

#[derive(Debug)]
struct Patient<S> {
    front: Arc<Front>,
    backend: Arc<Backend>,
    /// When the next check begins, or the present one has taken too long.
    due: Tick,
    begun: Tick,
    present: Option<Attempt<S>>,
    /// Checks in a row that went like the last.
    passed: u32,
    failed: u32,
}

#[derive(Debug)]
struct Attempt<S> {
    number: u32,
    socket: S,
    connected: bool,
    answer: Vec<u8>,
}

impl<S> Patient<S> {
    fn check(&self) -> &Check {
        let check = self.front.settings.check.as_ref();
        check.expect("only backends with a check are looked after")
    }
}

impl<S> Health<S> {
    /// Looks after the backends of `plan` from now on. Those known already keep their history.
    pub(crate) fn follow(&mut self, plan: &Plan, now: Tick) {
        let mut before = mem::take(&mut self.patients);
        for front in plan.iter().filter(|front| front.settings.check.is_some()) {
            for backend in &front.backends {
                let known = before
                    .iter()
                    .position(|patient| Arc::ptr_eq(&patient.backend, backend));
                let history = known.map(|index| before.swap_remove(index));
                self.patients.push(Patient {
                    front: Arc::clone(front),
                    backend: Arc::clone(backend),
                    due: now,
                    begun: now,
                    present: None,
                    passed: history.as_ref().map_or(0, |history| history.passed),
                    failed: history.as_ref().map_or(0, |history| history.failed),
                });
            }
        }
        // Nobody looks after those who are left: they are as well as their connections say.
        for patient in before {
            patient.backend.set_well(true);
        }
    }

    pub(crate) fn next_in(&self, now: Tick) -> Option<Duration> {
        let due = self.patients.iter().map(|patient| patient.due).min()?;
        Some(due.since(now))
    }
}

impl<D: Relay> Worker<D> {
    /// Begins the checks that are due, and ends those that take too long.
    pub(crate) fn look_after_backends(&mut self) {
        for index in 0..self.health.patients.len() {
            let patient = &self.health.patients[index];
            if patient.due > self.now {
                continue;
            }
            if patient.present.is_some() {
                self.conclude(index, Err("it did not answer in time"));
            } else {
                self.begin_check(index);
            }
        }
    }

    fn begin_check(&mut self, index: usize) {
        self.health.attempts = self.health.attempts.wrapping_add(1);
        let number = self.health.attempts;
        let patient = &mut self.health.patients[index];
        patient.begun = self.now;
        patient.due = self.now.after(patient.check().timeout);
        let token = Watched::Check(index as u16, number).token();
        let options = patient.front.connect_options();
        match self
            .driver
            .connect(patient.backend.address, &options, token)
        {
            Ok(socket) => {
                patient.present = Some(Attempt {
                    number,
                    socket,
                    connected: false,
                    answer: Vec::new(),
                });
            }
            // Want of descriptors says nothing of the backend.
            Err(error) if is_ours(&error) => {
                patient.due = self.now.after(patient.check().interval);
            }
            Err(_) => self.conclude(index, Err("no connection could be begun")),
        }
    }

    /// Something happened to a check's connection.
    pub(crate) fn on_check(&mut self, index: u16, number: u32) {
        let index = usize::from(index);
        let Some(patient) = self.health.patients.get_mut(index) else {
            return;
        };
        let Some(mut attempt) = patient.present.take() else {
            return;
        };
        if attempt.number != number {
            patient.present = Some(attempt);
            return;
        }
        let verdict = examine(&mut self.driver, patient.check(), &mut attempt);
        match verdict {
            Some(verdict) => self.conclude(index, verdict),
            None => patient.present = Some(attempt),
        }
    }

    fn conclude(&mut self, index: usize, verdict: Result<(), &'static str>) {
        let now = self.now;
        let patient = &mut self.health.patients[index];
        patient.present = None;
        let Check {
            interval,
            rise,
            fall,
            ..
        } = *patient.check();
        patient.due = patient.begun.after(interval).max(Tick(now.0 + 1));
        let backend = &patient.backend;
        match verdict {
            Ok(()) => {
                (patient.passed, patient.failed) = (patient.passed.saturating_add(1), 0);
                if patient.passed >= rise && !backend.is_well() && backend.set_well(true) {
                    tracing::info!("backend {} is well again", backend.shown());
                }
            }
            Err(why) => {
                (patient.passed, patient.failed) = (0, patient.failed.saturating_add(1));
                if patient.failed >= fall && backend.is_well() && backend.set_well(false) {
                    tracing::warn!(
                        "backend {} is not well: {why}, {fall} times in a row; it gets no \
                         connections until {rise} checks pass",
                        backend.shown()
                    );
                }
            }
        }
    }
}

/// How a check stands; `None` while it is open.
fn examine<D: Relay>(
    driver: &mut D,
    check: &Check,
    attempt: &mut Attempt<D::Socket>,
) -> Option<Result<(), &'static str>> {
    if !attempt.connected {
        if driver.connected(&attempt.socket).is_err() {
            return Some(Err("it refused a connection"));
        }
        attempt.connected = true;
        if !check.send.is_empty() {
            // A question is small, and the socket is new: it takes all or is broken.
            let sent = driver.send(&attempt.socket, &[&check.send]);
            if sent != Sent::Bytes(check.send.len()) {
                return Some(Err("it did not take the question"));
            }
        }
    }
    if check.expect.is_empty() {
        return Some(Ok(()));
    }
    let mut block = [0; 1024];
    loop {
        match driver.recv(&attempt.socket, &mut block) {
            Received::Bytes(count) => {
                attempt.answer.extend_from_slice(&block[..count]);
                let mut windows = attempt.answer.windows(check.expect.len());
                if windows.any(|window| window == check.expect) {
                    return Some(Ok(()));
                }
                if attempt.answer.len() > EXPECT_BYTES_MAX {
                    return Some(Err("its answer was another"));
                }
            }
            Received::Blocked => return None,
            Received::Ended | Received::Failed(_) => {
                return Some(Err("it ended without the answer"));
            }
        }
    }
}
