//! Count of established connections on a local port, from `sock_diag(7)`. The kernel filters by
//! port and state and sends about a hundred bytes for each match, whereas `/proc/net/tcp` prints a
//! line for every socket of the machine.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP` of linux/netlink.h.
const DUMP: u16 = 0x0301;
/// `NLMSG_ERROR` and `NLMSG_DONE` of linux/netlink.h.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Size of `nlmsghdr`, and of a request with `inet_diag_req_v2` after it.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// `TCP_ESTABLISHED` of linux/tcp_states.h, as a bit of the filter.
const ESTABLISHED: u32 = 1 << 1;
/// Size of the receive buffer. The kernel writes at most 32 KiB at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// Netlink socket for queries.
#[derive(Debug)]
pub(super) struct Connections {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Connections {
    /// Opens a netlink socket.
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            flags,
            Some(SOCK_DIAG),
        )?;
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Counts established connections whose local port is `port`, over both families.
    pub(super) fn established(&mut self, port: u16) -> io::Result<u64> {
        let four = self.count(AddressFamily::INET, port)?;
        Ok(four + self.count(AddressFamily::INET6, port)?)
    }

    fn count(&mut self, family: AddressFamily, port: u16) -> io::Result<u64> {
        send(&self.socket, &request(family, port), SendFlags::empty())?;
        let mut count = 0;
        loop {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            match tally(&self.buffer[..length])? {
                Part::Sockets(more) => count += more,
                Part::Last(more) => return Ok(count + more),
            }
        }
    }
}

/// Content of one datagram of the answer.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// This many sockets; more datagrams follow.
    Sockets(u64),
    /// This many sockets, and the end.
    Last(u64),
}

/// Builds the request: `nlmsghdr` and `inet_diag_req_v2`.
fn request(family: AddressFamily, port: u16) -> [u8; REQUEST_BYTES] {
    const TCP: u8 = 6;
    let mut request = [0; REQUEST_BYTES];
    request[0..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    request[16] = family.as_raw() as u8;
    request[17] = TCP;
    request[20..24].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    request[24..26].copy_from_slice(&port.to_be_bytes());
    request
}

/// Counts the messages of a datagram.
fn tally(mut messages: &[u8]) -> io::Result<Part> {
    let mut count = 0;
    while messages.len() >= HEADER_BYTES {
        let length = u32_at(messages, 0) as usize;
        match u16::from_ne_bytes([messages[4], messages[5]]) {
            BY_FAMILY => count += 1,
            DONE => return Ok(Part::Last(count)),
            ERROR => {
                let errno = messages.get(HEADER_BYTES..HEADER_BYTES + 4);
                let errno = errno.map_or(0, |_| u32_at(messages, HEADER_BYTES) as i32);
                return Err(io::Error::from_raw_os_error(-errno));
            }
            _ => {}
        }
        let next = length.max(HEADER_BYTES).next_multiple_of(4);
        messages = messages.get(next..).unwrap_or_default();
    }
    Ok(Part::Sockets(count))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = vec![0; HEADER_BYTES];
        message[0..4].copy_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    #[test]
    fn messages_are_counted_to_the_last() {
        let sockets = [message(BY_FAMILY, &[0; 89]), message(BY_FAMILY, &[0; 72])].concat();
        assert_eq!(tally(&sockets).unwrap(), Part::Sockets(2));
        let last = [sockets, message(DONE, &[0; 4])].concat();
        assert_eq!(tally(&last).unwrap(), Part::Last(2));
        let refused = tally(&message(ERROR, &(-1_i32).to_ne_bytes())).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(1));
        // A truncated datagram must not cause a panic.
        for cut in 0..last.len() {
            let _ = tally(&last[..cut]);
        }
    }

    #[test]
    fn only_the_server_side_of_connections_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = Connections::open().unwrap();
        let before = connections.established(address.port()).unwrap();
        let ends: Vec<_> = (0..300)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                (client, listener.accept().unwrap())
            })
            .collect();
        let after = connections.established(address.port()).unwrap();
        drop(ends);
        // Other processes may use the same port number at other addresses.
        let counted = after as i64 - before as i64;
        assert!((290..310).contains(&counted), "{counted}");
    }
}
