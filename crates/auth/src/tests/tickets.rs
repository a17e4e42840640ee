//! Tickets: a life of one, and many against a model.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::tickets::{RECONNECT_SECONDS, TICKET_IDS_MAX, TICKET_TTL_SECONDS_MAX};
use crate::{TicketError, Tickets, UnixSeconds};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
const TTL: u64 = 30;

fn issue(tickets: &mut Tickets, number: u8, now: UnixSeconds) -> String {
    let ids = [Box::from("alice"), Box::from("news")];
    tickets.issue([number; 16], ids, TTL, now).unwrap()
}

#[test]
fn a_ticket_is_text_that_fits_into_a_url() {
    let mut tickets = Tickets::default();
    let texts = [0, 0xff].map(|number| issue(&mut tickets, number, NOW));
    for text in texts {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        assert!(text.len() == 22 && text.bytes().all(fits), "{text}");
    }
}

#[test]
fn a_ticket_logs_in_as_its_ids_and_allows_no_other() {
    let mut tickets = Tickets::default();
    let text = issue(&mut tickets, 1, NOW);
    let redeemed = tickets.redeem(&text, 7, NOW).unwrap();
    assert_eq!(&*redeemed.ids, [Box::from("alice"), Box::from("news")]);
    let identity = redeemed.identity();
    assert_eq!(identity.subject, None);
    assert_eq!(identity.issued, Some(NOW));
    assert!(identity.scope.allows("alice") && identity.scope.allows("news"));
    assert!(!identity.scope.allows("bob"));
}

#[test]
fn a_star_in_the_id_of_a_ticket_is_a_character() {
    let mut tickets = Tickets::default();
    let text = tickets.issue([1; 16], [Box::from("*")], TTL, NOW).unwrap();
    let identity = tickets.redeem(&text, 7, NOW).unwrap().identity();
    assert!(identity.scope.allows("*") && !identity.scope.allows("bob"));
}

#[test]
fn a_ticket_is_first_used_within_its_ttl() {
    let mut tickets = Tickets::default();
    let text = issue(&mut tickets, 1, NOW);
    let late = issue(&mut tickets, 2, NOW);
    assert!(tickets.redeem(&text, 7, NOW.plus(TTL - 1)).is_ok());
    let found = tickets.redeem(&late, 8, NOW.plus(TTL));
    assert_eq!(found, Err(TicketError::Unknown));
    assert_eq!(tickets.len(), 1);
}

#[test]
fn a_ticket_is_good_while_its_session_lives_and_two_minutes_after() {
    let mut tickets = Tickets::default();
    let text = issue(&mut tickets, 1, NOW);
    let first = tickets.redeem(&text, 7, NOW).unwrap();
    // The session lasts a day, and breaks.
    let broken = NOW.plus(86_400);
    tickets.release(&first.hash, 7, broken);
    let back = broken.plus(RECONNECT_SECONDS - 1);
    let second = tickets.redeem(&text, 8, back).unwrap();
    assert_eq!((second.superseded, second.hash), (None, first.hash));
    // Again, and this time the client does not come in time.
    tickets.release(&second.hash, 8, back);
    let late = tickets.redeem(&text, 9, back.plus(RECONNECT_SECONDS));
    assert_eq!(late, Err(TicketError::Unknown));
    assert!(tickets.is_empty());
}

#[test]
fn a_ticket_of_an_hour_is_forgotten_two_minutes_after_its_session() {
    let mut tickets = Tickets::default();
    let ids = [Box::from("alice")];
    let text = tickets.issue([1; 16], ids, TICKET_TTL_SECONDS_MAX, NOW);
    let redeemed = tickets.redeem(&text.unwrap(), 7, NOW).unwrap();
    tickets.release(&redeemed.hash, 7, NOW.plus(1));
    tickets.forget_until(NOW.plus(RECONNECT_SECONDS));
    assert_eq!(tickets.len(), 1);
    tickets.forget_until(NOW.plus(1 + RECONNECT_SECONDS));
    assert!(tickets.is_empty());
}

#[test]
fn a_reconnect_before_the_server_notices_the_end_takes_the_ticket_over() {
    let mut tickets = Tickets::default();
    let text = issue(&mut tickets, 1, NOW);
    let first = tickets.redeem(&text, 7, NOW).unwrap();
    let second = tickets.redeem(&text, 8, NOW.plus(1000)).unwrap();
    assert_eq!(second.superseded, Some(7));
    // The end of the old session, which comes now, does not touch the new one.
    tickets.release(&first.hash, 7, NOW.plus(1000));
    let much_later = NOW.plus(1000 + 2 * RECONNECT_SECONDS);
    let third = tickets.redeem(&text, 9, much_later).unwrap();
    assert_eq!(third.superseded, Some(8));
    tickets.release(&third.hash, 8, much_later);
    assert_eq!(
        tickets.redeem(&text, 10, much_later).unwrap().superseded,
        Some(9)
    );
}

#[test]
fn what_is_no_ticket_is_refused() {
    let mut tickets = Tickets::default();
    let text = issue(&mut tickets, 1, NOW);
    for at in 0..text.len() {
        assert_eq!(
            tickets.redeem(&text[..at], 7, NOW),
            Err(TicketError::Unknown)
        );
        for bit in 0..7 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let changed = String::from_utf8(bytes).unwrap();
            let found = tickets.redeem(&changed, 7, NOW);
            assert_eq!(found, Err(TicketError::Unknown), "{changed}");
        }
    }
    for other in [
        "",
        "alice",
        &format!("{text}="),
        &format!("{text}A"),
        &"A".repeat(1 << 20),
    ] {
        assert_eq!(tickets.redeem(other, 7, NOW), Err(TicketError::Unknown));
    }
    assert!(tickets.redeem(&text, 7, NOW).is_ok());
}

#[test]
fn tickets_are_bounded_and_those_that_are_over_make_place() {
    let mut tickets = Tickets::with_max(2);
    let text = issue(&mut tickets, 1, NOW);
    issue(&mut tickets, 2, NOW);
    let full = tickets.issue([3; 16], [Box::from("a")], TTL, NOW);
    assert_eq!(full, Err(TicketError::Full));
    tickets.redeem(&text, 7, NOW).unwrap();
    let later = NOW.plus(TTL);
    assert!(tickets.issue([3; 16], [Box::from("a")], TTL, later).is_ok());
    let full = tickets.issue([4; 16], [Box::from("a")], TTL, later);
    assert_eq!(full, Err(TicketError::Full), "one is in use");
}

#[test]
fn a_ticket_needs_ids_and_a_ttl_within_bounds() {
    let mut tickets = Tickets::default();
    let ids = |count: usize| {
        (0..count)
            .map(|id| Box::from(id.to_string()))
            .collect::<Vec<_>>()
    };
    for count in [0, TICKET_IDS_MAX + 1, 100_000] {
        let found = tickets.issue([1; 16], ids(count), TTL, NOW);
        assert_eq!(found, Err(TicketError::Ids));
    }
    for ttl in [0, TICKET_TTL_SECONDS_MAX + 1, u64::MAX] {
        let found = tickets.issue([1; 16], ids(1), ttl, NOW);
        assert_eq!(found, Err(TicketError::Ttl));
    }
    assert!(
        tickets
            .issue([1; 16], ids(TICKET_IDS_MAX), TICKET_TTL_SECONDS_MAX, NOW)
            .is_ok()
    );
}

#[test]
fn a_ticket_that_was_taken_back_is_refused_and_its_name_names_no_other() {
    let mut tickets = Tickets::with_max(1);
    let text = issue(&mut tickets, 1, NOW);
    let old = tickets.redeem(&text, 7, NOW).unwrap();
    tickets.revoke(&old.hash);
    assert_eq!(tickets.redeem(&text, 8, NOW), Err(TicketError::Unknown));
    let later = NOW.plus(TTL);
    let text = issue(&mut tickets, 2, later);
    let new = tickets.redeem(&text, 7, later).unwrap();
    assert_ne!(new.hash, old.hash);
    // What is still known of the old one does nothing to the new one.
    tickets.release(&old.hash, 7, later);
    tickets.revoke(&old.hash);
    assert_eq!(tickets.redeem(&text, 9, later).unwrap().superseded, Some(7));
}

#[test]
fn secrets_are_not_shown() {
    let mut tickets = Tickets::default();
    let text = issue(&mut tickets, 0x5a, NOW);
    let shown = format!("{tickets:?}");
    assert!(!shown.contains(&text));
    assert!(!shown.contains(&format!("{:?}", [0x5a_u8; 16])));
    assert!(!shown.contains("90, 90, 90, 90"), "{shown}");
}

/// One operation on tickets.
#[derive(Debug, Clone)]
enum Operation {
    Issue { number: u8, ttl: u64 },
    Redeem { number: u8, session: u64 },
    Release { number: u8, session: u64 },
    Revoke { number: u8 },
    Pass { seconds: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let number = 0..6_u8;
    let session = 0..4_u64;
    prop_oneof![
        (number.clone(), 1..200_u64).prop_map(|(number, ttl)| Operation::Issue { number, ttl }),
        (number.clone(), session.clone())
            .prop_map(|(number, session)| Operation::Redeem { number, session }),
        (number.clone(), session)
            .prop_map(|(number, session)| Operation::Release { number, session }),
        number.prop_map(|number| Operation::Revoke { number }),
        (0..150_u64).prop_map(|seconds| Operation::Pass { seconds }),
        (0..10_000_u64).prop_map(|seconds| Operation::Pass { seconds }),
    ]
}

/// What a ticket is in the model.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Life {
    Until(u64),
    Bound(u64),
}

proptest! {
    #[test]
    fn tickets_do_what_a_model_does(operations in prop::collection::vec(operation(), 0..80)) {
        let mut tickets = Tickets::default();
        let mut now = NOW;
        // Numbers of secrets are used once: each issue has its own.
        let mut issued = 0_u16;
        let mut current: HashMap<u8, (String, Option<crate::tickets::Hash>, Life)> =
            HashMap::new();
        for operation in operations {
            match operation {
                Operation::Issue { number, ttl } => {
                    if current.contains_key(&number) {
                        continue;
                    }
                    issued += 1;
                    let mut secret = [0; 16];
                    secret[..2].copy_from_slice(&issued.to_be_bytes());
                    let text = tickets.issue(secret, [Box::from("a")], ttl, now).unwrap();
                    current.insert(number, (text, None, Life::Until(now.0 + ttl)));
                }
                Operation::Redeem { number, session } => {
                    let Some((text, key, life)) = current.get_mut(&number) else {
                        continue;
                    };
                    let redeemed = tickets.redeem(text, session, now);
                    let superseded = match *life {
                        Life::Until(until) if until <= now.0 => {
                            prop_assert_eq!(redeemed, Err(TicketError::Unknown));
                            current.remove(&number);
                            continue;
                        }
                        Life::Until(_) => None,
                        Life::Bound(held_by) => Some(held_by).filter(|&it| it != session),
                    };
                    let redeemed = redeemed.unwrap();
                    prop_assert_eq!(redeemed.superseded, superseded);
                    *key = Some(redeemed.hash);
                    *life = Life::Bound(session);
                }
                Operation::Release { number, session } => {
                    let Some((_, Some(key), life)) = current.get_mut(&number) else {
                        continue;
                    };
                    tickets.release(key, session, now);
                    if *life == Life::Bound(session) {
                        *life = Life::Until(now.0 + RECONNECT_SECONDS);
                    }
                }
                Operation::Revoke { number } => {
                    if let Some((_, Some(key), _)) = current.get(&number) {
                        tickets.revoke(key);
                        current.remove(&number);
                    }
                }
                Operation::Pass { seconds } => now = now.plus(seconds),
            }
            tickets.forget_until(now);
            let is_alive = |life: &Life| !matches!(*life, Life::Until(until) if until <= now.0);
            let alive = current.values().filter(|(_, _, life)| is_alive(life)).count();
            prop_assert_eq!(tickets.len(), alive);
        }
    }
}
