//! Byte counts of a TCP connection, read through `sock_diag(7)`, so that a connection's record need
//! not keep them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` of linux/netlink.h.
const REQUEST: u16 = 1;
/// The bit that asks for `INET_DIAG_INFO`, a `struct tcp_info`, of linux/inet_diag.h.
const WITH_TCP_INFO: u8 = 1 << (TCP_INFO_ATTRIBUTE - 1);
const TCP_INFO_ATTRIBUTE: u16 = 2;
/// `nlmsghdr`, and `inet_diag_msg` behind it.
const HEADER_BYTES: usize = 16;
const MESSAGE_BYTES: usize = 72;
/// `idiag_wqueue` within `inet_diag_msg`: bytes that the peer has not acknowledged.
const WRITE_QUEUE_AT: usize = 60;
/// `tcpi_bytes_acked` within `struct tcp_info` (RFC 4898, tcpEStatsAppHCThruOctetsAcked).
const BYTES_ACKED_AT: usize = 120;

/// Bytes sent on a connection, by whether the peer has acknowledged them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Acknowledged by the peer's kernel since the connection began.
    pub acknowledged: u64,
    /// Accepted by the local kernel and not acknowledged yet.
    pub unacknowledged: u64,
}

/// Netlink socket for `sock_diag(7)`.
#[derive(Debug)]
pub struct Diagnosis(OwnedFd);

impl Diagnosis {
    /// Opens a netlink socket.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left or the kernel has no `sock_diag`.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Self(socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            flags,
            Some(SOCK_DIAG),
        )?))
    }

    /// Returns the byte counts of the connection between two addresses; `None` if there is none.
    pub fn tcp(&mut self, local: SocketAddr, peer: SocketAddr) -> Option<TcpInfo> {
        send(&self.0, &request(local, peer), SendFlags::empty()).ok()?;
        let mut answer = [0; 1024];
        // The kernel answers within `send`: there is nothing to wait for.
        let (length, _) = recv(&self.0, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
        parse(answer.get(..length)?)
    }
}

/// `nlmsghdr` and `inet_diag_req_v2`.
fn request(local: SocketAddr, peer: SocketAddr) -> [u8; 72] {
    const TCP: u8 = 6;
    let family = if local.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let mut request = [0; 72];
    request[0..4].copy_from_slice(&72_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    request[16] = family.as_raw() as u8;
    request[17] = TCP;
    request[18] = WITH_TCP_INFO;
    // 20..24 is a filter of states, which a question about one connection does not use.
    request[24..26].copy_from_slice(&local.port().to_be_bytes());
    request[26..28].copy_from_slice(&peer.port().to_be_bytes());
    put_address(&mut request[28..44], local.ip());
    put_address(&mut request[44..60], peer.ip());
    // 60..64 is the interface; all ones for the cookie ask for whichever socket it is.
    request[64..72].fill(0xff);
    request
}

fn put_address(field: &mut [u8], address: IpAddr) {
    match address {
        IpAddr::V4(v4) => field[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => field.copy_from_slice(&v6.octets()),
    }
}

fn parse(answer: &[u8]) -> Option<TcpInfo> {
    if u16_at(answer, 4)? != BY_FAMILY {
        return None;
    }
    let unacknowledged = u64::from(u32_at(answer, HEADER_BYTES + WRITE_QUEUE_AT)?);
    let mut attributes = answer.get(HEADER_BYTES + MESSAGE_BYTES..)?;
    loop {
        let (length, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        if kind == TCP_INFO_ATTRIBUTE {
            let at = 4 + BYTES_ACKED_AT;
            let acked = attributes.get(at..at + 8)?.try_into().ok()?;
            return Some(TcpInfo {
                acknowledged: u64::from_ne_bytes(acked),
                unacknowledged,
            });
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
