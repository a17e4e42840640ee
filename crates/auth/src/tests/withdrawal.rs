//! What is withdrawn: revocations and bans.

use crate::bans::{BAN_SECONDS_MAX, BanError};
use crate::revocations::RevocationError;
use crate::{Bans, Identity, Revocations, Scope, TokenError, UnixSeconds};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
const LIFETIME: u64 = 3600;

fn identity(subject: &str, issued: Option<UnixSeconds>, token_id: Option<&str>) -> Identity {
    Identity {
        subject: Some(subject.into()),
        scope: Scope::all(),
        publish: Scope::default(),
        expires: Some(NOW.plus(LIFETIME)),
        issued,
        token_id: token_id.map(Box::from),
    }
}

fn is_refused(revocations: &Revocations, identity: &Identity, ids: &[&str]) -> bool {
    let found = revocations.check(identity, ids.iter().copied(), NOW);
    assert!(matches!(found, Ok(()) | Err(TokenError::Revoked)));
    found.is_err()
}

#[test]
fn an_id_is_refused_what_was_issued_before_and_not_what_is_issued_afterwards() {
    let mut revocations = Revocations::default();
    revocations.revoke_id("alice", NOW, LIFETIME, NOW).unwrap();
    let issued = |at: u64| identity("alice", Some(UnixSeconds(at)), None);
    assert!(is_refused(&revocations, &issued(NOW.0 - 1), &[]));
    assert!(!is_refused(&revocations, &issued(NOW.0), &[]));
    assert!(!is_refused(&revocations, &issued(NOW.0 + 1), &[]));
    assert!(
        is_refused(&revocations, &identity("alice", None, None), &[]),
        "no iat"
    );
    let bob = identity("bob", Some(UnixSeconds(NOW.0 - 1)), None);
    assert!(!is_refused(&revocations, &bob, &["news"]));
    assert!(
        is_refused(&revocations, &bob, &["news", "alice"]),
        "asks for the id"
    );
}

#[test]
fn of_two_revocations_of_an_id_the_later_counts() {
    let mut revocations = Revocations::default();
    revocations.revoke_id("alice", NOW, LIFETIME, NOW).unwrap();
    let earlier = UnixSeconds(NOW.0 - 100);
    revocations
        .revoke_id("alice", earlier, LIFETIME, NOW)
        .unwrap();
    let token = identity("alice", Some(UnixSeconds(NOW.0 - 1)), None);
    assert!(is_refused(&revocations, &token, &[]));
    assert_eq!(revocations.len(), 1);
}

#[test]
fn a_token_is_refused_by_its_name() {
    let mut revocations = Revocations::default();
    revocations.revoke_token("t-1", LIFETIME, NOW).unwrap();
    assert!(is_refused(
        &revocations,
        &identity("alice", Some(NOW), Some("t-1")),
        &[]
    ));
    assert!(!is_refused(
        &revocations,
        &identity("alice", Some(NOW), Some("t-11")),
        &[]
    ));
    assert!(!is_refused(
        &revocations,
        &identity("t-1", Some(NOW), None),
        &["t-1"]
    ));
    for token_id in [String::new(), "x".repeat(257)] {
        let found = revocations.revoke_token(&token_id, LIFETIME, NOW);
        assert_eq!(found, Err(RevocationError::TokenId));
    }
}

#[test]
fn a_revocation_lasts_as_long_as_a_token_may_live() {
    let mut revocations = Revocations::default();
    revocations.revoke_id("alice", NOW, LIFETIME, NOW).unwrap();
    revocations.revoke_token("t-1", LIFETIME, NOW).unwrap();
    let old = identity("alice", Some(UnixSeconds(NOW.0 - 1)), Some("t-1"));
    let check = |revocations: &Revocations, at| revocations.check(&old, [], at);
    assert!(check(&revocations, NOW.plus(LIFETIME - 1)).is_err());
    assert!(check(&revocations, NOW.plus(LIFETIME)).is_ok());
    revocations.forget_until(NOW.plus(LIFETIME - 1));
    assert_eq!(revocations.len(), 2);
    revocations.forget_until(NOW.plus(LIFETIME));
    assert!(revocations.is_empty());
}

#[test]
fn a_revocation_made_again_lasts_longer() {
    let mut revocations = Revocations::default();
    revocations.revoke_token("t-1", LIFETIME, NOW).unwrap();
    let later = NOW.plus(LIFETIME - 1);
    revocations.revoke_token("t-1", LIFETIME, later).unwrap();
    let token = identity("alice", Some(NOW), Some("t-1"));
    assert!(
        revocations
            .check(&token, [], NOW.plus(LIFETIME + 1))
            .is_err()
    );
    revocations.forget_until(NOW.plus(LIFETIME + 1));
    assert_eq!(revocations.len(), 1);
    // Nor does one for a shorter time shorten it.
    revocations.revoke_token("t-1", 1, later).unwrap();
    assert!(
        revocations
            .check(&token, [], NOW.plus(LIFETIME + 1))
            .is_err()
    );
}

#[test]
fn revocations_are_bounded_and_none_is_dropped_for_a_new_one() {
    let mut revocations = Revocations::with_max(2);
    for id in ["a", "b"] {
        revocations.revoke_id(id, NOW, LIFETIME, NOW).unwrap();
    }
    let full = revocations.revoke_id("c", NOW, LIFETIME, NOW);
    assert_eq!(full, Err(RevocationError::Full));
    revocations.revoke_id("a", NOW, LIFETIME, NOW).unwrap();
    let old = UnixSeconds(NOW.0 - 1);
    for id in ["a", "b"] {
        assert!(is_refused(
            &revocations,
            &identity(id, Some(old), None),
            &[]
        ));
    }
    // Those that have lapsed make place.
    let later = NOW.plus(LIFETIME);
    revocations.revoke_id("c", later, LIFETIME, later).unwrap();
    assert_eq!(revocations.len(), 1);
}

#[test]
fn a_revocation_cannot_reach_into_the_future() {
    let mut revocations = Revocations::default();
    assert_eq!(
        revocations.revoke_id("a", NOW.plus(1), LIFETIME, NOW),
        Ok(())
    );
    let future = revocations.revoke_id("b", NOW.plus(2), LIFETIME, NOW);
    assert_eq!(future, Err(RevocationError::Future));
    // As of a time in milliseconds.
    let future = revocations.revoke_id("b", UnixSeconds(NOW.0 * 1000), LIFETIME, NOW);
    assert_eq!(future, Err(RevocationError::Future));
}

#[test]
fn a_ban_lasts_until_its_time_or_until_it_is_lifted() {
    let mut bans = Bans::default();
    bans.ban("alice", 600, NOW).unwrap();
    assert_eq!(bans.until("alice", NOW), Some(NOW.plus(600)));
    assert_eq!(bans.until("alice", NOW.plus(599)), Some(NOW.plus(600)));
    assert_eq!(bans.until("alice", NOW.plus(600)), None);
    assert_eq!(bans.until("bob", NOW), None);
    bans.ban("alice", 60, NOW).unwrap();
    assert_eq!(
        bans.until("alice", NOW),
        Some(NOW.plus(600)),
        "the longer one stays"
    );
    assert!(bans.lift("alice"));
    assert!(!bans.lift("alice"));
    assert_eq!(bans.until("alice", NOW), None);
    assert!(bans.is_empty());
}

#[test]
fn bans_are_bounded_in_number_and_time() {
    let mut bans = Bans::with_max(2);
    assert_eq!(
        bans.ban("a", BAN_SECONDS_MAX + 1, NOW),
        Err(BanError::TooLong)
    );
    bans.ban("a", BAN_SECONDS_MAX, NOW).unwrap();
    bans.ban("b", 1, NOW).unwrap();
    assert_eq!(bans.ban("c", 1, NOW), Err(BanError::Full));
    bans.ban("c", 1, NOW.plus(1)).unwrap();
    assert_eq!(bans.len(), 2);
}
