//! Worker threads, with a descriptor table of their own where asked.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sched::{CloneFlags, unshare};

/// Stack of a worker: its loop is shallow and keeps its buffers on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// Starts a thread. With `private_fds` it first leaves the process's descriptor table for a copy of
/// its own, so that the limit on descriptors counts for it alone. From then on what it opens it
/// must close itself, and a socket must not be sent to it or away from it.
///
/// # Errors
///
/// When no thread can be started. A failure to leave the table reaches `run`.
pub fn spawn<T: Send + 'static>(
    name: String,
    private_fds: bool,
    run: impl FnOnce(io::Result<()>) -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let table = if private_fds {
                unshare(CloneFlags::CLONE_FILES)
            } else {
                Ok(())
            };
            run(table.map_err(io::Error::from))
        })
}
