//! Threads.

use std::io;
use std::thread::Result;

use crate::check::is_scheduled;

/// Maker of a thread, as that of `std`.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

/// A thread that can be waited for.
#[derive(Debug)]
pub struct JoinHandle<T>(Thread<T>);

#[derive(Debug)]
enum Thread<T> {
    Real(std::thread::JoinHandle<T>),
    Scheduled(shuttle::thread::JoinHandle<T>),
}

impl Builder {
    /// Begins to make a thread without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives it a name.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self { name: Some(name) }
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// When the kernel has no room for it.
    pub fn spawn<T: Send + 'static>(
        self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let name = self.name.unwrap_or_default();
        Ok(JoinHandle(match is_scheduled() {
            false => Thread::Real(std::thread::Builder::new().name(name).spawn(run)?),
            true => Thread::Scheduled(shuttle::thread::Builder::new().name(name).spawn(run)?),
        }))
    }
}

impl<T> JoinHandle<T> {
    /// Waits for its end. Returns its result.
    ///
    /// # Errors
    ///
    /// What it has panicked with.
    pub fn join(self) -> Result<T> {
        match self.0 {
            Thread::Real(thread) => thread.join(),
            Thread::Scheduled(thread) => thread.join(),
        }
    }
}

/// Starts a thread.
///
/// # Panics
///
/// When the kernel has no room for it.
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new()
        .spawn(run)
        .expect("there is room for a thread")
}

/// Lets others go on.
pub fn yield_now() {
    match is_scheduled() {
        false => std::thread::yield_now(),
        true => shuttle::thread::yield_now(),
    }
}
