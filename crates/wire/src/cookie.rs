//! Cookies of a request (RFC 6265, section 4.2.1).
//!
//! Owns how a `Cookie` field is split. Must never know what a cookie is for.

use crate::forwarded::unquoted;

/// Returns the values of all cookies called `name` in the value of a `Cookie` field. Several
/// cookies of one name differ in path or domain, which the field does not tell: the caller must not
/// guess which of them counts. Names are compared with regard to case.
///
/// ```
/// use wire::cookie::values;
///
/// let field = "theme=dark; session=a.b.c; session=\"d\"";
/// assert_eq!(values(field, "session").collect::<Vec<_>>(), ["a.b.c", "d"]);
/// assert_eq!(values(field, "Session").count(), 0);
/// ```
pub fn values<'a>(field: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    field.split(';').filter_map(move |pair| {
        let (found, value) = pair.split_once('=')?;
        (found.trim() == name).then(|| unquoted(value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::values;

    fn found(field: &str) -> Vec<&str> {
        values(field, "a").collect()
    }

    #[test]
    fn cookies_of_one_name_are_all_returned() {
        assert_eq!(found("a=1"), ["1"]);
        assert_eq!(found("b=2; a=1;c=3"), ["1"]);
        assert_eq!(found("a=1; a=2"), ["1", "2"]);
        assert_eq!(found("a=; aa=1; ba=2; a"), [""]);
        assert_eq!(found(" a = x=y "), ["x=y"]);
        assert_eq!(found(""), [""; 0]);
        assert_eq!(found(";;=;a"), [""; 0]);
    }

    #[test]
    fn only_a_pair_of_quotation_marks_is_removed() {
        assert_eq!(found("a=\"1\""), ["1"]);
        assert_eq!(found("a=\"1"), ["\"1"]);
        assert_eq!(found("a=\""), ["\""]);
    }
}
