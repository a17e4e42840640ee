//! What a line of a batch costs. Run in release mode:
//! `cargo test --release -p control -- --ignored --nocapture what_a_line_costs`.

use std::hint::black_box;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use router::Tally;
use rustix::time::{ClockId, clock_gettime};

use super::line;
use super::lines::Lines;
use crate::api::Api;
use crate::caller::Caller;
use crate::items::{Items, Shape};
use crate::limits::Limits;
use crate::live_tokens::LiveTokens;
use crate::stream::Stream;
use crate::tests::fake::{Fake, Workers};
use crate::tokens::Tokens;

const LINES: u64 = 200_000;

/// As many bytes as the connection hands over at a time.
const PIECE_BYTES: usize = 64 << 10;

fn batch(subject: impl Fn(u64) -> String, data: &str) -> Vec<Bytes> {
    let text: String = (0..LINES)
        .map(|n| format!("{{\"subject\":{},\"data\":{data}}}\n", subject(n)))
        .collect();
    let whole = Bytes::from(text);
    (0..whole.len())
        .step_by(PIECE_BYTES)
        .map(|at| whole.slice(at..whole.len().min(at + PIECE_BYTES)))
        .collect()
}

/// Nanoseconds that this thread has had a processor: others share the machine.
fn cpu_time() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn measured(name: &str, mut work: impl FnMut()) {
    work();
    let best = (0..7)
        .map(|_| {
            let begun = cpu_time();
            work();
            cpu_time() - begun
        })
        .min()
        .unwrap();
    println!("{name:44} {:6.1} ns a line", best as f64 / LINES as f64);
}

fn each_line(pieces: &[Bytes], mut work: impl FnMut(&crate::items::Item<'_>)) {
    let mut items = Items::new(Shape::Lines, 1 << 20);
    for piece in pieces {
        items.feed(piece.clone());
        while let Some(item) = items.next() {
            work(&item.unwrap());
        }
    }
}

#[test]
#[ignore = "measures; run it in release mode"]
fn what_a_line_costs() {
    let threads = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let integers = batch(|n| n.to_string(), "\"hello, this is an event\"");
    let texts = batch(
        |n| format!("\"user-{n}\""),
        "{\"from\":17,\"text\":\"hello\"}",
    );
    for (name, pieces) in [("integer, text", &integers), ("text, json", &texts)] {
        measured(&format!("{name}: find"), || {
            each_line(pieces, |item| {
                black_box(item.text);
            })
        });
        measured(&format!("{name}: find, parse"), || {
            each_line(pieces, |item| {
                black_box(line::event(item, 65_536).unwrap());
            })
        });
        for online in [false, true] {
            let fake = Fake::new();
            fake.workers(Workers::Count);
            fake.act_on_a_thread();
            if online {
                for n in 0..LINES as u32 {
                    fake.login(&n.to_string(), 0, n);
                    fake.login(&format!("user-{n}"), 0, n);
                }
            }
            let state = if online { "online" } else { "offline" };
            let tally = Tally::new();
            measured(&format!("{name}, {state}: find, parse, publish"), || {
                each_line(pieces, |item| {
                    let event = line::event(item, 65_536).unwrap();
                    black_box(fake.router().publish(event, &tally));
                })
            });
            let api = Arc::new(Api::new(
                fake.handle.clone(),
                LiveTokens::new(Tokens::default(), true),
                65_536,
                Limits::USUAL,
            ));
            let body = || crate::tests::fake::stream(pieces.clone());
            let open = async || Lines {
                stream: Stream::open(body(), Shape::Lines, 1 << 20, None)
                    .await
                    .unwrap(),
                caller: Caller::new(None),
                event_bytes_max: 65_536,
                is_stored: true,
            };
            measured(&format!("{name}, {state}: whole, summary"), || {
                threads.block_on(async {
                    let lines = open().await;
                    black_box(super::summary::answer(&api, lines, None).await.unwrap());
                })
            });
            measured(&format!("{name}, {state}: whole, each"), || {
                threads.block_on(async {
                    let lines = open().await;
                    let mut body: Body =
                        super::line_receipts::answer(api.clone(), lines).into_body();
                    while let Some(piece) = crate::body::chunk(&mut body).await {
                        black_box(piece.unwrap());
                    }
                })
            });
        }
    }
}
