//! One client between reads: a state of a few dozen bytes, and what it makes of bytes.

use std::os::fd::OwnedFd;

use crate::decode::count::{Counter, Noticed};
use crate::decode::framing::{Framing, Piece};
use crate::decode::head::Head;
use crate::decode::{Malformed, Transport};

/// User memory of one client, buffers included when it is idle. A million are 128 MB.
const STREAM_BYTES_MAX: usize = 128;

const _: () = assert!(size_of::<Stream>() <= STREAM_BYTES_MAX);

/// One client. Owned by its thread from connect to close.
#[derive(Debug)]
pub(super) enum Stream {
    /// Not connected, or no more.
    Closed,
    /// The handshake is under way; the request waits for it.
    Connecting(OwnedFd),
    /// The request is sent. Bytes of an incomplete head are kept, which is rare.
    Head(OwnedFd, Vec<u8>),
    /// The head has come; events follow.
    Body(OwnedFd, Body),
}

/// The reading state of an open stream.
#[derive(Debug)]
pub(super) struct Body {
    framing: Framing,
    counter: Counter,
}

/// What bytes meant to a client whose head was awaited.
#[derive(Debug)]
pub(super) enum Heading {
    /// The head is incomplete; these bytes are to be kept.
    Partial,
    /// The head is 200; the body starts after this many bytes.
    Open(Body, usize),
    /// Another status; the text is its code and the start of its body.
    Refused(String),
}

/// Reads a head at the start of `bytes`.
pub(super) fn heading(bytes: &[u8]) -> Result<Heading, Malformed> {
    let Some((head, used)) = Head::parse(bytes)? else {
        return Ok(Heading::Partial);
    };
    if head.status != 200 {
        let body = String::from_utf8_lossy(&bytes[used..]);
        let line = body.lines().next().unwrap_or("").trim();
        return Ok(Heading::Refused(
            format!("{} {line}", head.status).trim().to_owned(),
        ));
    }
    Ok(Heading::Open(
        Body {
            framing: head.framing()?,
            counter: Counter::new(),
        },
        used,
    ))
}

impl Body {
    /// Reads bytes of the stream; whether it is complete.
    #[inline]
    pub(super) fn read(
        &mut self,
        transport: Transport,
        mut input: &[u8],
        mut tell: impl FnMut(Noticed),
    ) -> Result<bool, Malformed> {
        while let Some(piece) = self.framing.next(&mut input)? {
            match piece {
                Piece::Bytes(bytes) => self.counter.bytes(transport, bytes, &mut tell),
                Piece::ChunkEnd => self.counter.chunk_end(transport, &mut tell),
                Piece::End => return Ok(true),
            }
        }
        Ok(false)
    }
}
