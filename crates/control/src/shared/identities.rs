//! Effects of shared state on identities.

use std::time::Duration;

use auth::UnixSeconds;
use auth::bans::BAN_SECONDS_MAX;
use auth::tickets::Holder;
use graph::Id;
use server::Handle;

use super::piece::{Digest, IdentityPiece};
use crate::error::IdentityError;

/// Makes a piece of a node take effect on a server.
pub(super) fn apply(
    server: &Handle,
    piece: IdentityPiece,
    node: u64,
    is_own: bool,
    now: UnixSeconds,
) -> Result<(), IdentityError> {
    match piece {
        // Clocks differ: a time is not in the future because this node is behind.
        IdentityPiece::RevokeId { id, before, at } => {
            Ok(server.revoke(&id, UnixSeconds(before), now.max(UnixSeconds(at)))?)
        }
        IdentityPiece::RevokeToken { jti, at } => {
            Ok(server.revoke_token(&jti, now.max(UnixSeconds(at)))?)
        }
        IdentityPiece::Ban { id, until } => {
            match until.saturating_sub(now.0).min(BAN_SECONDS_MAX) {
                0 => Ok(()),
                seconds => Ok(server.ban(&id, Duration::from_secs(seconds), now)?),
            }
        }
        IdentityPiece::Close { id } => {
            server.close(&server.router().sessions(&id));
            Ok(())
        }
        IdentityPiece::Issue {
            ticket: Digest(hash),
            ids,
            issued,
            until,
        } => Ok(server.accept_ticket(hash, &ids, UnixSeconds(issued), UnixSeconds(until), now)?),
        IdentityPiece::Use {
            ticket: Digest(hash),
            ids,
            issued,
            session,
        } => {
            if is_own {
                server.ticket_announced(&hash, session);
                return Ok(());
            }
            let holder = Holder { node, session };
            Ok(server.ticket_used_elsewhere(hash, &ids, UnixSeconds(issued), holder, now)?)
        }
        IdentityPiece::Release {
            ticket: Digest(hash),
            session,
        } => {
            if !is_own {
                server.ticket_released_elsewhere(&hash, Holder { node, session }, now);
            }
            Ok(())
        }
        IdentityPiece::Hide { id, hidden } => hide(server, &id, hidden),
    }
}

/// Hides an id on this server, or shows it again. Does nothing where presence is not kept. The key
/// of a hidden id is held, so that it is not given to another id.
///
/// # Errors
///
/// When there is no room for an id that nobody knew.
pub(super) fn hide(server: &Handle, id: &Id, is_hidden: bool) -> Result<(), IdentityError> {
    let Some(online) = server.presence().map(|presence| presence.online()) else {
        return Ok(());
    };
    let graph = server.router().graph();
    if is_hidden {
        // Held for as long as it hides: another id must not hide in its place.
        let key = graph
            .hold(id)
            .map_err(|full| IdentityError::HiddenIdsFull(full.to_string()))?;
        if !online.set_hidden(key, true) {
            graph.release(key);
        }
    } else if let Some(key) = graph.find(id)
        && online.set_hidden(key, false)
    {
        graph.release(key);
    }
    Ok(())
}
