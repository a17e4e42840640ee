//! Laws of a mailbox, in whatever order its threads take their steps.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use rustix::io::Errno;
use scheduled::{AtomicUsize, JoinHandle, check, spawn, yield_now};

use super::Mailbox;

/// Orders of each law by each scheduler.
const SCHEDULES: usize = 10_000;

const PRODUCERS: usize = 3;
const ITEMS_EACH: usize = 2;

/// An item: its producer, and how many that producer has sent before.
type Item = (usize, usize);

/// Returns how often the bell has rung since the last time.
fn rings(mailbox: &Mailbox<Item>) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(mailbox, &mut count) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(error) => {
            assert_eq!(error, Errno::AGAIN);
            0
        }
    }
}

/// Starts producers, and returns them with the number of those that may still wake the worker.
fn produce(
    mailbox: &Arc<Mailbox<Item>>,
    send: fn(&Mailbox<Item>, Item) -> bool,
) -> (Vec<JoinHandle<Vec<Item>>>, Arc<AtomicUsize>) {
    let at_work = Arc::new(AtomicUsize::new(PRODUCERS));
    let producers = (0..PRODUCERS).map(|producer| {
        let (mailbox, at_work) = (Arc::clone(mailbox), Arc::clone(&at_work));
        spawn(move || {
            let items = (0..ITEMS_EACH).map(|nth| (producer, nth));
            let refused = items.filter(|&item| !send(&mailbox, item)).collect();
            at_work.fetch_sub(1, SeqCst);
            refused
        })
    });
    (producers.collect(), at_work)
}

fn join(producers: Vec<JoinHandle<Vec<Item>>>) -> Vec<Item> {
    let refused = producers.into_iter();
    refused
        .flat_map(|producer| producer.join().expect("no panic"))
        .collect()
}

/// Posts one item of each producer as one of weight, and the others without.
fn post_or_insert(mailbox: &Mailbox<Item>, item: Item) -> bool {
    match item.1 {
        0 => {
            let is_posted = mailbox.post(item, 1).is_ok();
            mailbox.ring();
            is_posted
        }
        _ => {
            mailbox.insert(item);
            true
        }
    }
}

// Mail that came between a look and the announcement of the sleep woke nobody.
#[test]
fn all_mail_is_taken_once_in_the_order_of_its_producer_and_no_worker_sleeps_beside_it() {
    check(SCHEDULES, || {
        let mailbox = Arc::new(Mailbox::new(100).expect("a descriptor"));
        let (producers, at_work) = produce(&mailbox, post_or_insert);
        let mut taken = Vec::new();
        let (mut sleeps, mut woken) = (0, 0);
        // As the event loop does: it takes mail in each turn, and sleeps between two turns unless
        // there is mail.
        while taken.len() < PRODUCERS * ITEMS_EACH {
            sleeps += 1;
            if mailbox.may_sleep() {
                loop {
                    let may_ring = at_work.load(SeqCst) > 0;
                    let rings = rings(&mailbox);
                    woken += rings;
                    if rings > 0 {
                        break;
                    }
                    assert!(may_ring, "the worker sleeps, and nobody wakes it");
                    yield_now();
                }
            }
            mailbox.wake_up();
            taken.extend(mailbox.take());
        }
        assert_eq!(join(producers), []);
        for producer in 0..PRODUCERS {
            let its = taken.iter().filter(|item| item.0 == producer);
            let sent = (0..ITEMS_EACH).map(|nth| (producer, nth));
            assert!(its.copied().eq(sent), "{taken:?}");
        }
        woken += rings(&mailbox);
        assert!(woken <= sleeps, "{woken} rings for {sleeps} sleeps");
        mailbox.release(PRODUCERS);
        assert_eq!((mailbox.outstanding(), mailbox.waiting()), (0, 0));
    });
}

#[test]
fn what_a_worker_that_ends_has_not_taken_is_left_or_refused_and_no_weight_stays() {
    const WEIGHT: usize = 7;
    check(SCHEDULES, || {
        let mailbox = Arc::new(Mailbox::new(100).expect("a descriptor"));
        let (producers, _) = produce(&mailbox, |mailbox, item| {
            let is_posted = mailbox.post(item, WEIGHT).is_ok();
            mailbox.ring();
            is_posted
        });
        let taken = mailbox.take();
        mailbox.release(WEIGHT * taken.len());
        let left = mailbox.close();
        mailbox.release(WEIGHT * left.len());
        let refused = join(producers);
        let mut all = [taken, left, refused].concat();
        all.sort_unstable();
        let sent = (0..PRODUCERS).flat_map(|it| (0..ITEMS_EACH).map(move |nth| (it, nth)));
        assert!(sent.eq(all), "an item is lost, or is there twice");
        assert_eq!((mailbox.outstanding(), mailbox.waiting()), (0, 0));
        assert!(mailbox.take().is_empty());
        assert!(mailbox.may_sleep(), "a closed mailbox has no mail");
    });
}

#[test]
fn more_than_its_bound_is_never_outstanding_except_for_one_item() {
    const WEIGHT: usize = 40;
    const WEIGHT_MAX: usize = 100;
    check(SCHEDULES, || {
        let mailbox = Arc::new(Mailbox::new(WEIGHT_MAX).expect("a descriptor"));
        let (producers, at_work) =
            produce(&mailbox, |mailbox, item| mailbox.post(item, WEIGHT).is_ok());
        let (mut in_work, mut taken) = (0, 0);
        loop {
            let is_last = at_work.load(SeqCst) == 0;
            let items = mailbox.take().len();
            taken += items;
            in_work += items;
            assert!(in_work * WEIGHT <= WEIGHT_MAX, "{in_work} items");
            if is_last {
                break;
            }
            // It is done with one item, and not yet with another.
            if in_work > 0 {
                mailbox.release(WEIGHT);
                in_work -= 1;
            }
            yield_now();
        }
        mailbox.release(WEIGHT * in_work);
        let refused = join(producers).len();
        assert_eq!(taken + refused, PRODUCERS * ITEMS_EACH);
        assert!(taken > 0, "one item is always taken");
        assert_eq!(mailbox.outstanding(), 0);
        mailbox
            .post((0, 0), 10 * WEIGHT_MAX)
            .expect("nothing is outstanding");
    });
}
