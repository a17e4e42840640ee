//! Somebody asks a tool to end: a flag, and a sleep that ends with it. The first signal asks; the
//! second ends the process at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::failure::{Context, Outcome};
use crate::signals::{Request, Signals};

/// Whether somebody has asked. Clones share one answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<(Mutex<bool>, Condvar)>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    ///
    /// When the signals cannot be caught, or no thread can be started to wait for them.
    pub fn catch() -> Outcome<Self> {
        Self::catch_with_cleanup(|| {})
    }

    /// Catches SIGINT and SIGTERM from now on. The second signal runs `cleanup` before it ends the
    /// process.
    ///
    /// # Errors
    ///
    /// As [`Interrupt::catch`].
    pub fn catch_with_cleanup(cleanup: impl Fn() + Send + 'static) -> Outcome<Self> {
        let signals = Signals::catch_interrupts().context("watching for interrupts")?;
        let interrupt = Self::default();
        let told = interrupt.clone();
        signals
            .handle(move |request| match request {
                Request::End(_) => told.ask(),
                Request::Exit(_) => cleanup(),
                Request::Reload(_) => {}
            })
            .context("starting the thread that watches for interrupts")?;
        Ok(interrupt)
    }

    /// Asks to end, as a signal does.
    pub fn ask(&self) {
        let (asked, changed) = &*self.0;
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Whether somebody has asked.
    pub fn asked(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `when`; whether the tool is to go on.
    pub fn sleep_until(&self, when: Instant) -> bool {
        self.sleep(when.saturating_duration_since(Instant::now()))
    }

    /// Sleeps for `pause`; whether the tool is to go on.
    pub fn sleep(&self, pause: Duration) -> bool {
        let (asked, changed) = &*self.0;
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, _) = changed
            .wait_timeout_while(asked, pause, |asked| !*asked)
            .unwrap_or_else(PoisonError::into_inner);
        !*asked
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_sleep_ends_when_somebody_asks() {
        let interrupt = Interrupt::default();
        assert!(interrupt.sleep(Duration::ZERO));
        let other = interrupt.clone();
        let sleeper = thread::spawn(move || other.sleep(Duration::from_secs(3600)));
        interrupt.ask();
        assert!(!sleeper.join().unwrap());
        assert!(!interrupt.sleep(Duration::from_secs(3600)));
    }
}
