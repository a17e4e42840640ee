//! Measures the history: memory and time for each event, and the time to find missed events.
//!
//!     cargo run --release -p history --example measure

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use graph::Key;
use history::{Entry, Followed, History, Limits, Reach};

const SUBJECTS: u64 = 1_000_000;
const PAYLOAD_BYTES: usize = 120;
const LIMIT_BYTES: usize = 256 << 20;

/// Returns the next 64 random bits (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn main() {
    let mut state = 1;
    let limits = Limits {
        bytes: LIMIT_BYTES,
        age_seconds: None,
    };
    let mut history = History::new(limits, 0);
    let mut released = Vec::new();
    let payload = [b'x'; PAYLOAD_BYTES];
    let mut position = 0;
    let mut append = |history: &mut History, count: u64| {
        let start = Instant::now();
        let mut slowest = 0;
        for _ in 0..count {
            position += 1;
            let key = Key::from_cursor((random(&mut state) % SUBJECTS) as u32);
            let reach = Reach::Subscribers;
            let (tag, event_type, payload) = (0, "", &payload[..]);
            let entry = Entry {
                position,
                key,
                reach,
                tag,
                event_type,
                payload,
            };
            let one = Instant::now();
            history.append(&entry, 0, &mut released);
            slowest = slowest.max(one.elapsed().as_micros());
            released.clear();
        }
        let each = start.elapsed().as_secs_f64() / count as f64;
        println!(
            "appended {count}: {:.3} us each, the slowest {slowest} us",
            each * 1e6
        );
    };
    append(&mut history, 1_500_000);
    append(&mut history, 3_000_000);
    let each = history.bytes() as f64 / history.events() as f64;
    println!(
        "{} events in {} bytes: {each:.1} bytes each",
        history.events(),
        history.bytes()
    );

    let mut missed = Vec::new();
    for behind in [10_000, 100_000, 1_000_000] {
        for follows in [30, 200, 2_000] {
            const ROUNDS: u32 = 200;
            let start = Instant::now();
            let mut found = 0;
            for _ in 0..ROUNDS {
                let after = history.head() - behind;
                let keys: Vec<_> = (0..follows)
                    .map(|_| (random(&mut state) % SUBJECTS) as u32)
                    .collect();
                let followed = keys.iter().map(|&key| Followed {
                    key: Key::from_cursor(key),
                    after,
                    is_own: false,
                });
                history.missed(followed, u64::MAX, 1000, &mut missed);
                found += black_box(&missed).len();
            }
            let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
            let found = found as f64 / f64::from(ROUNDS);
            println!("follows {follows}, {behind} behind: {each:.1} us, {found:.1} events");
        }
    }
}
