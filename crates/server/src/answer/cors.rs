//! Fields for pages of other origins.

use wire::response::Cors;

/// Returns the CORS fields for a page of another origin: none, unless the operator allows the
/// origin. Credentials are allowed only to origins that are listed by name.
pub(super) fn cors<'a>(allowed: &[String], origin: Option<&'a str>) -> Cors<'a> {
    match origin {
        _ if allowed.is_empty() => Cors::default(),
        _ if allowed.iter().any(|origin| origin == "*") => Cors {
            allow_origin: Some("*"),
            allow_credentials: false,
            vary: false,
        },
        origin => {
            let origin = origin.filter(|origin| allowed.iter().any(|known| known == origin));
            Cors {
                allow_origin: origin,
                // Any site can make a page of the origin `null`, in a sandboxed frame.
                allow_credentials: origin.is_some_and(|origin| origin != "null"),
                vary: true,
            }
        }
    }
}
