//! Callers of the control API, and what a route needs of them.
//!
//! Owns the answers to a caller that lacks a right (RFC 6750, section 3.1). A request without a
//! caller has no rights.

use std::sync::Arc;

use axum::extract::Request;
use graph::Id;

use crate::problem::Problem;
use crate::query::id_at;
use crate::tokens::{Right, Token};

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: health checks.
    Nothing,
    /// Any token.
    AnyToken,
    /// A token with this right. If it may name some ids only, the handler checks those of the
    /// request.
    Right(Right),
    /// A token with both of these rights. The handler checks the ids of the request.
    Both(Right, Right),
    /// A token with this right that may name all ids.
    RightOverAll(Right),
}

/// The program that sent a request.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// Not known, so it may do nothing.
    Unknown,
    /// A program on this machine, where no token is needed.
    Local,
    Bearer(Arc<Token>),
}

impl Caller {
    /// Returns the bearer of a token, or a program on this machine.
    pub(crate) fn new(token: Option<Arc<Token>>) -> Self {
        token.map_or(Self::Local, Self::Bearer)
    }

    /// Returns the caller that authentication has found.
    pub(crate) fn of(request: &Request) -> Self {
        let found = request.extensions().get::<Self>();
        found.cloned().unwrap_or(Self::Unknown)
    }

    /// Returns its token, if it has one.
    pub(crate) const fn token(&self) -> Option<&Arc<Token>> {
        match self {
            Self::Bearer(token) => Some(token),
            Self::Unknown | Self::Local => None,
        }
    }

    /// Returns its name for logs.
    pub(crate) fn name(&self) -> &str {
        self.token().map_or("local", |token| &token.name)
    }

    /// Checks that it has what a route needs.
    pub(crate) fn check(&self, need: Need) -> Result<(), Problem> {
        let (right, second, over_all) = match need {
            Need::Nothing => return Ok(()),
            Need::AnyToken => (None, None, false),
            Need::Right(right) => (Some(right), None, false),
            Need::Both(first, second) => (Some(first), Some(second), false),
            Need::RightOverAll(right) => (Some(right), None, true),
        };
        let token = match self {
            Self::Unknown => return Err(no_right(right, "the caller is not known".to_owned())),
            Self::Local => return Ok(()),
            Self::Bearer(token) => token,
        };
        let name = &token.name;
        let mut rights = right.into_iter().chain(second);
        if let Some(right) = rights.find(|right| !token.may(*right)) {
            let why = format!(
                "the token `{name}` does not have the right `{}`, which this request needs; use a \
                 token that has it",
                right.name()
            );
            return Err(no_right(Some(right), why));
        }
        if over_all && !token.prefixes().is_empty() {
            let why = format!(
                "the token `{name}` may only name ids with certain prefixes, and this request \
                 concerns others as well; use a token without prefixes"
            );
            return Err(no_right(right, why));
        }
        Ok(())
    }

    /// Returns the id in the third segment of a request's path, if its caller may name it.
    ///
    /// # Errors
    ///
    /// When there is no id, or the caller may not name it.
    pub(crate) fn id_of(request: &Request) -> Result<Id, Problem> {
        let id = id_at(request.uri(), 2)?;
        Self::of(request).check_id(&id)?;
        Ok(id)
    }

    /// Checks that it may name an id.
    pub(crate) fn check_id(&self, id: &Id) -> Result<(), Problem> {
        self.refusal_of_id(id)
            .map_or(Ok(()), |why| Err(no_right(None, why)))
    }

    /// Returns whether it may name an id.
    pub(crate) fn may_name(&self, id: &Id) -> bool {
        let prefixes = match self {
            Self::Unknown => return false,
            Self::Local => return true,
            Self::Bearer(token) => token.prefixes(),
        };
        let begins = |prefix: &str| match id {
            Id::Text(text) => text.starts_with(prefix),
            Id::Integer(number) => number.to_string().starts_with(prefix),
        };
        prefixes.is_empty() || prefixes.iter().any(|prefix| begins(prefix))
    }

    /// Returns why it may not name an id; `None` if it may.
    pub(crate) fn refusal_of_id(&self, id: &Id) -> Option<String> {
        if self.may_name(id) {
            return None;
        }
        let Some(token) = self.token() else {
            return Some("the caller is not known".to_owned());
        };
        let prefixes = token.prefixes().iter().map(|prefix| format!("`{prefix}`"));
        Some(format!(
            "the token `{}` may only name ids that begin with {}, and `{id}` does not",
            token.name,
            prefixes.collect::<Vec<_>>().join(" or ")
        ))
    }
}

/// Returns the answer to a caller without a right.
fn no_right(right: Option<Right>, why: String) -> Problem {
    let mut challenge = "Bearer realm=\"encke\", error=\"insufficient_scope\"".to_owned();
    if let Some(right) = right {
        challenge += &format!(", scope=\"{}\"", right.name());
    }
    Problem::forbidden(why, &challenge)
}
