//! Health checks: a connection to each backend at an interval, optionally with a request and the
//! expected answer.
//!
//! One worker runs the checks for all. The result is stored in the backend, where all workers see
//! it.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Received, RelayDriver, Sent, Tick};

use crate::tcp::backend::Backend;
use crate::tcp::connect::is_local;
use crate::tcp::frontend::Frontend;
use crate::tcp::limits::EXPECT_BYTES_MAX;
use crate::tcp::settings::Check;
use crate::tcp::socket_id::SocketId;

/// Health checks of all backends, run by one worker.
#[derive(Debug)]
pub(crate) struct HealthChecker<S> {
    targets: Vec<HealthTarget<S>>,
    /// Number of the latest attempt. Late signals of earlier ones are ignored.
    attempts: u32,
}

/// Backend under health checks.
#[derive(Debug)]
struct HealthTarget<S> {
    frontend: Arc<Frontend>,
    backend: Arc<Backend>,
    /// When the next check begins, or the current one times out.
    due: Tick,
    begun: Tick,
    present: Option<Attempt<S>>,
    /// Consecutive checks that passed; 0 after a failure.
    passed: u32,
    /// Consecutive checks that failed; 0 after a success.
    failed: u32,
}

/// Check in progress.
#[derive(Debug)]
struct Attempt<S> {
    number: u32,
    socket: S,
    connected: bool,
    answer: Vec<u8>,
}

impl<S> Default for HealthChecker<S> {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            attempts: 0,
        }
    }
}

impl<S> HealthTarget<S> {
    fn check(&self) -> &Check {
        let check = self.frontend.settings.check.as_ref();
        check.expect("only backends with a check are targets")
    }

    /// Records the result of a check. After enough of the same, takes the backend out or brings it
    /// back.
    fn conclude(&mut self, now: Tick, verdict: Result<(), &'static str>) {
        self.present = None;
        let Check {
            interval,
            rise,
            fall,
            ..
        } = *self.check();
        self.due = self.begun.after(interval).max(Tick(now.0 + 1));
        let backend = &self.backend;
        match verdict {
            Ok(()) => {
                (self.passed, self.failed) = (self.passed.saturating_add(1), 0);
                if self.passed >= rise && !backend.is_well() && backend.set_well(true) {
                    tracing::info!("backend {} is well again", backend.shown());
                }
            }
            Err(reason) => {
                (self.passed, self.failed) = (0, self.failed.saturating_add(1));
                if self.failed >= fall && backend.is_well() && backend.set_well(false) {
                    tracing::warn!(
                        "backend {} is not well: {reason}, {fall} times in a row; it gets no \
                         connections until {rise} checks in a row pass",
                        backend.shown()
                    );
                }
            }
        }
    }
}

impl<S> HealthChecker<S> {
    /// Checks the backends of `frontends` from now on. Backends that were checked before keep their
    /// results.
    pub(crate) fn follow(&mut self, frontends: &[Arc<Frontend>], now: Tick) {
        let mut before = mem::take(&mut self.targets);
        let checked = frontends
            .iter()
            .filter(|frontend| frontend.settings.check.is_some());
        for frontend in checked {
            for backend in &frontend.backends {
                let known = before
                    .iter()
                    .position(|target| Arc::ptr_eq(&target.backend, backend));
                let history = known.map(|index| before.swap_remove(index));
                self.targets.push(HealthTarget {
                    frontend: Arc::clone(frontend),
                    backend: Arc::clone(backend),
                    due: now,
                    begun: now,
                    present: None,
                    passed: history.as_ref().map_or(0, |history| history.passed),
                    failed: history.as_ref().map_or(0, |history| history.failed),
                });
            }
        }
        // The others are no longer checked, so only failed connections eject them.
        for target in before {
            target.backend.set_well(true);
        }
    }

    /// Returns the time until a check begins or times out, if there are targets.
    pub(crate) fn next_in(&self, now: Tick) -> Option<Duration> {
        let due = self.targets.iter().map(|target| target.due).min()?;
        Some(due.since(now))
    }

    /// Begins the checks that are due, and fails those that have timed out.
    pub(crate) fn run_due<D: RelayDriver<Socket = S>>(&mut self, driver: &mut D, now: Tick) {
        for index in 0..self.targets.len() {
            let target = &mut self.targets[index];
            if target.due > now {
                continue;
            }
            if target.present.is_some() {
                target.conclude(now, Err("it did not answer in time"));
            } else {
                self.begin(driver, now, index);
            }
        }
    }

    fn begin<D: RelayDriver<Socket = S>>(&mut self, driver: &mut D, now: Tick, index: usize) {
        self.attempts = self.attempts.wrapping_add(1);
        let number = self.attempts;
        let target = &mut self.targets[index];
        target.begun = now;
        target.due = now.after(target.check().timeout);
        let token = SocketId::HealthCheck(index as u16, number).token();
        let options = target.frontend.connect_options();
        match driver.connect(target.backend.address, &options, token) {
            Ok(socket) => {
                target.present = Some(Attempt {
                    number,
                    socket,
                    connected: false,
                    answer: Vec::new(),
                });
            }
            // A lack of descriptors says nothing about the backend.
            Err(error) if is_local(&error) => {
                target.due = now.after(target.check().interval);
            }
            Err(_) => target.conclude(now, Err("no connection could be begun")),
        }
    }

    /// Handles a signal of a check's socket.
    pub(crate) fn on_signal<D: RelayDriver<Socket = S>>(
        &mut self,
        driver: &mut D,
        now: Tick,
        index: u16,
        number: u32,
    ) {
        let Some(target) = self.targets.get_mut(usize::from(index)) else {
            return;
        };
        let Some(mut attempt) = target.present.take() else {
            return;
        };
        if attempt.number != number {
            target.present = Some(attempt);
            return;
        }
        match attempt.advance(driver, target.check()) {
            Some(verdict) => target.conclude(now, verdict),
            None => target.present = Some(attempt),
        }
    }
}

impl<S> Attempt<S> {
    /// Advances a check. Returns its result, or `None` while it is in progress.
    fn advance<D: RelayDriver<Socket = S>>(
        &mut self,
        driver: &mut D,
        check: &Check,
    ) -> Option<Result<(), &'static str>> {
        if !self.connected {
            if driver.connected(&self.socket).is_err() {
                return Some(Err("it refused a connection"));
            }
            self.connected = true;
            if !check.send.is_empty() {
                // The request is small and the socket is new: it accepts everything or is broken.
                let sent = driver.send(&self.socket, &[&check.send]);
                if sent != Sent::Bytes(check.send.len()) {
                    return Some(Err("it did not take the request"));
                }
            }
        }
        if check.expect.is_empty() {
            return Some(Ok(()));
        }
        let mut block = [0; 1024];
        loop {
            match driver.recv(&self.socket, &mut block) {
                Received::Bytes(count) => {
                    self.answer.extend_from_slice(&block[..count]);
                    let mut windows = self.answer.windows(check.expect.len());
                    if windows.any(|window| window == check.expect) {
                        return Some(Ok(()));
                    }
                    if self.answer.len() > EXPECT_BYTES_MAX {
                        return Some(Err("its answer was a different one"));
                    }
                }
                Received::Blocked => return None,
                Received::Ended | Received::Failed(_) => {
                    return Some(Err("it ended without the answer"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use simulated::SimDriver;
    use simulated::network::{Behaviour, network};

    use super::*;
    use crate::tcp::sim::settings;

    /// Needs neither a worker nor pairs.
    #[test]
    fn a_late_signal_of_an_earlier_check_decides_nothing() {
        let mut settings = settings(1);
        settings.check = Some(Check {
            interval: Duration::from_secs(1),
            timeout: Duration::from_millis(500),
            rise: 1,
            fall: 2,
            send: Vec::new(),
            expect: Vec::new(),
        });
        let frontend = Arc::new(Frontend::new(settings.listen, settings, None));
        let network = network(usize::MAX);
        let silent = (frontend.backends[0].address, Behaviour::Silent);
        network.borrow_mut().behaviours.extend([silent]);
        let mut driver = SimDriver(Rc::clone(&network));
        let mut health = HealthChecker::default();
        health.follow(&[Arc::clone(&frontend)], Tick(0));
        // The first check times out, and the second one is in progress.
        for millis in [0, 500, 1000] {
            assert_eq!(health.next_in(Tick(millis)), Some(Duration::ZERO));
            health.run_due(&mut driver, Tick(millis));
        }
        assert_eq!(network.borrow().connects.len(), 2);
        health.on_signal(&mut driver, Tick(1100), 0, 1);
        health.run_due(&mut driver, Tick(1500));
        assert!(!frontend.backends[0].is_well(), "the second one failed too");
        // A signal of the check in progress decides.
        health.run_due(&mut driver, Tick(2000));
        health.on_signal(&mut driver, Tick(2100), 0, 3);
        assert!(frontend.backends[0].is_well());
    }
}
