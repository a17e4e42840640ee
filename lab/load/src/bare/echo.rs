//! Minimal echo server: the backend when a proxy is measured.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use super::listen;
use crate::poll::{EventBatch, Interest, Poller};
use machine::failure::{Context, Outcome};

/// Bytes read at a time.
const BLOCK_BYTES: usize = 64 * 1024;

/// Poller token of the listener. The token of a connection is its slot.
const LISTENER: u64 = u64::MAX;

/// Echoes every byte, on one thread, until the process ends. Bytes that do not fit into the socket
/// at once are dropped, so requests must fit into a socket buffer.
///
/// # Errors
///
/// If listening on `address` fails.
pub fn run(address: SocketAddr) -> Outcome<()> {
    let listener = listen(address).context(format_args!("listening on {address}"))?;
    let poller = Poller::new().context("making an epoll")?;
    poller
        .add(&listener, LISTENER, Interest::IN)
        .context("watching the listener")?;
    let mut clients: Vec<Option<OwnedFd>> = Vec::new();
    let (mut batch, mut block) = (EventBatch::new(), vec![0; BLOCK_BYTES]);
    loop {
        poller
            .wait(&mut batch, None)
            .context("waiting for questions")?;
        for ready in batch.iter() {
            if ready.token == LISTENER {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let Ok(client) = accept_with(&listener, flags) else {
                    continue;
                };
                let slot = clients.iter().position(Option::is_none);
                let slot = slot.unwrap_or_else(|| {
                    clients.push(None);
                    clients.len() - 1
                });
                let served = set_tcp_nodelay(&client, true).is_ok()
                    && poller.add(&client, slot as u64, Interest::IN).is_ok();
                clients[slot] = served.then_some(client);
                continue;
            }
            let slot = &mut clients[ready.token as usize];
            let Some(client) = slot else {
                continue;
            };
            let heard = match recv(&*client, &mut block, RecvFlags::empty()) {
                Ok((_, count)) if count > 0 => send(&*client, &block[..count], SendFlags::NOSIGNAL),
                Ok(_) => Err(Errno::PIPE),
                Err(errno) => Err(errno),
            };
            if !matches!(heard, Ok(_) | Err(Errno::AGAIN | Errno::INTR)) {
                *slot = None;
            }
        }
    }
}
