//! Receipts on their way to a client that may be slow to read them, or read none before it has sent
//! its last line.
//!
//! Owns the unread bytes and their bound. Must never let a batch go on whose client is gone.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use http_body::Frame;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::limits::UNREAD_WAIT;

/// Bytes handed to the connection at a time.
const FRAME_BYTES_MAX: usize = 64 << 10;

/// The batch's end: owned by its task.
#[derive(Debug)]
pub(super) struct Outbox(Arc<Mutex<State>>);

/// The client's end: the body of the answer.
#[derive(Debug)]
pub(super) struct Answer(Arc<Mutex<State>>);

/// The client is gone: the answer will not be read.
#[derive(Debug)]
pub(super) struct Left;

/// Whether the answer has room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// The client has read nothing for too long. The batch must take no more lines; from now on
    /// there is room for the receipts of those that it has taken.
    Late,
}

/// Returns the sentence for a client that is late to read.
pub(super) fn late() -> String {
    format!(
        "no more lines are read: receipts wait, and none was read for {} s; read receipts while \
         you send, or use ?receipts=summary",
        UNREAD_WAIT.as_secs()
    )
}

/// The batch was cut off: the connection is reset, lest the answer look whole.
#[derive(Debug, thiserror::Error)]
#[error("the batch was aborted before its last receipt")]
pub(super) struct CutOff;

#[derive(Debug, Default)]
struct State {
    /// Unread bytes from which there is no room.
    unread_max: usize,
    unread: BytesMut,
    /// The batch has ended with the receipts of the lines that it has taken.
    late: bool,
    /// The last byte is there.
    whole: bool,
    batch_gone: bool,
    client_gone: bool,
    /// Waits for bytes.
    client: Option<Waker>,
    /// Waits for room.
    batch: Option<Waker>,
}

/// Returns the two ends of an answer, of which about `unread_max` bytes may be unread.
pub(super) fn outbox(unread_max: usize) -> (Outbox, Answer) {
    let state = Arc::new(Mutex::new(State {
        unread_max,
        ..State::default()
    }));
    (Outbox(Arc::clone(&state)), Answer(state))
}

impl Outbox {
    /// Moves bytes into the answer.
    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.unread.extend_from_slice(bytes);
        bytes.clear();
        if let Some(client) = state.client.take() {
            client.wake();
        }
    }

    /// Waits until the client has read enough, or is late.
    pub(super) async fn room(&self) -> Result<Room, Left> {
        let room = poll_fn(|context| {
            let mut state = self.0.lock();
            if state.client_gone {
                Poll::Ready(Err(Left))
            } else if state.unread.len() < state.unread_max || state.late {
                Poll::Ready(Ok(Room::Free))
            } else {
                state.batch = Some(context.waker().clone());
                Poll::Pending
            }
        });
        timeout(UNREAD_WAIT, room).await.unwrap_or_else(|_| {
            self.0.lock().late = true;
            Ok(Room::Late)
        })
    }

    /// Returns whether the client is gone. If it is not, the task is woken when it goes.
    pub(super) fn is_left(&self, context: &Context<'_>) -> bool {
        let mut state = self.0.lock();
        state.batch = Some(context.waker().clone());
        state.client_gone
    }

    /// The answer is whole.
    pub(super) fn end(self) {
        self.0.lock().whole = true;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.batch_gone = true;
        if let Some(client) = state.client.take() {
            client.wake();
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.client_gone = true;
        if let Some(batch) = state.batch.take() {
            batch.wake();
        }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let mut state = self.0.lock();
        if !state.unread.is_empty() {
            let length = state.unread.len().min(FRAME_BYTES_MAX);
            let frame = state.unread.split_to(length).freeze();
            if state.unread.len() < state.unread_max
                && let Some(batch) = state.batch.take()
            {
                batch.wake();
            }
            return Poll::Ready(Some(Ok(Frame::data(frame))));
        }
        match *state {
            State { whole: true, .. } => Poll::Ready(None),
            State {
                batch_gone: true, ..
            } => Poll::Ready(Some(Err(CutOff))),
            _ => {
                state.client = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::chunk;
    use crate::tests::fake::SMALL;
    use crate::tests::fake::run;
    use axum::body::Body;

    #[test]
    fn an_answer_that_was_cut_off_does_not_look_whole() {
        run(async {
            for whole in [true, false] {
                let (outbox, answer) = outbox(SMALL.unread_bytes_max);
                let mut body = Body::new(answer);
                outbox.put(&mut b"one\n".to_vec());
                match whole {
                    true => outbox.end(),
                    false => drop(outbox),
                }
                assert_eq!(chunk(&mut body).await.unwrap().unwrap(), "one\n");
                assert_eq!(chunk(&mut body).await.is_none(), whole);
            }
        });
    }

    #[test]
    fn a_client_that_reads_nothing_is_waited_for_but_not_for_ever() {
        run(async {
            let (outbox, answer) = outbox(SMALL.unread_bytes_max);
            let mut body = Body::new(answer);
            outbox.put(&mut vec![b'x'; SMALL.unread_bytes_max]);
            assert_eq!(outbox.room().await.unwrap(), Room::Late, "it reads nothing");
            assert_eq!(outbox.room().await.unwrap(), Room::Free, "for what is left");
            let read = tokio::spawn(async move {
                let frame = chunk(&mut body).await.unwrap().unwrap();
                (frame.len(), body)
            });
            let (length, body) = read.await.unwrap();
            assert_eq!(length, FRAME_BYTES_MAX);
            drop(body);
            assert!(outbox.room().await.is_err(), "it is gone");
        });
    }
}
