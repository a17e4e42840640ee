//! How much of a connection is read at a time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::{run, within};
use crate::limits::READ_BYTES_MAX;
use crate::tests::fake::Fake;

/// Peer that has sent everything and stays, and notes the largest room that was offered for it.
struct Peer {
    sent: Vec<u8>,
    read: usize,
    room: Arc<AtomicUsize>,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.room.fetch_max(buffer.remaining(), Relaxed);
        let rest = &self.sent[self.read..];
        if rest.is_empty() {
            return Poll::Pending;
        }
        let taken = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..taken]);
        self.read += taken;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answer.lock().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

// Each publisher that had sent a batch kept half a megabyte for as long as it was connected.
#[test]
fn a_large_batch_leaves_a_connection_no_large_buffer() {
    run(async {
        let lines = "{\"subject\":1,\"data\":2}\n".repeat(200_000);
        let head = format!(
            "POST /v1/publish?receipts=summary HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
            lines.len()
        );
        let (room, answer) = (Arc::default(), Arc::default());
        let peer = Peer {
            sent: (head + &lines).into_bytes(),
            read: 0,
            room: Arc::clone(&room),
            answer: Arc::clone(&answer),
        };
        let server = within(&Fake::new());
        let place = server.places.enter();
        let connection = server.service.connection(peer, Instant::now(), place);
        // Until it has been idle for too long.
        let _ = connection.await;
        assert!(lines.len() > 16 * READ_BYTES_MAX);
        assert_eq!(room.load(Relaxed), READ_BYTES_MAX);
        let answer = String::from_utf8(answer.lock().clone()).unwrap();
        assert!(answer.contains("\"events\":200000,"), "{answer}");
    });
}
