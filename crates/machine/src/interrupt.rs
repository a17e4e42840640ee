//! Interruption of a tool: a flag, and a sleep that ends when it is set. The first signal sets it;
//! the second ends the process at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::failure::{Context, Outcome};
use crate::signals::{Request, Signals};

/// Flag that asks a tool to end. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<(Mutex<bool>, Condvar)>);

impl Interrupt {
    /// Starts to catch SIGINT and SIGTERM.
    ///
    /// # Errors
    ///
    /// When the signals cannot be caught, or no thread can be started to wait for them.
    pub fn catch() -> Outcome<Self> {
        Self::catch_with_cleanup(|| {})
    }

    /// Like [`Interrupt::catch`]; the second signal runs `cleanup` before it ends the process.
    ///
    /// # Errors
    ///
    /// Those of [`Interrupt::catch`].
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

    /// Sets the flag, as a signal does.
    pub fn ask(&self) {
        let (asked, changed) = &*self.0;
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Whether the flag is set.
    pub fn asked(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `when` or until the flag is set. Returns whether the tool should go on.
    pub fn sleep_until(&self, when: Instant) -> bool {
        self.sleep(when.saturating_duration_since(Instant::now()))
    }

    /// Sleeps for `pause` or until the flag is set. Returns whether the tool should go on.
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
    fn an_interrupt_ends_a_sleep() {
        let interrupt = Interrupt::default();
        assert!(interrupt.sleep(Duration::ZERO));
        let other = interrupt.clone();
        let sleeper = thread::spawn(move || other.sleep(Duration::from_secs(3600)));
        interrupt.ask();
        assert!(!sleeper.join().unwrap());
        assert!(!interrupt.sleep(Duration::from_secs(3600)));
    }
}
