use super::*;
use crate::live_tokens::{Denial, LiveTokens};

const FILE: &str = r#"
[[token]]
name = "backend"
secret = "0123456789abcdef"
rights = ["publish", "graph"]
prefixes = ["chat:", "7"]

[[token]]
name = "ops"
# of "fedcba9876543210"
sha256 = "5ee4fc87e0ab9b0a3dbd6d6e6f1e1a6dbde1c9ef6ba6f1ce2a8b2ae39a9b6f29"
rights = ["admin"]
"#;

fn file() -> Tokens {
    let hex = digest(&SHA256, b"fedcba9876543210")
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let old = FILE.split("sha256 = \"").nth(1).unwrap();
    let text = FILE.replace(&old[..64], &hex);
    Tokens::parse(&text).unwrap()
}

#[test]
fn a_token_is_found_by_its_whole_secret_only() {
    let tokens = file();
    let name = |secret: &str| tokens.find(secret.as_bytes()).map(|token| &*token.name);
    assert_eq!(name("0123456789abcdef"), Some("backend"));
    assert_eq!(name("fedcba9876543210"), Some("ops"));
    for wrong in [
        "",
        "0123456789abcde",
        "0123456789abcdef0",
        "0123456789ABCDEF",
        "backend",
    ] {
        assert_eq!(name(wrong), None, "{wrong}");
    }
    // Digests of some of these begin like those of the tokens.
    for number in 0..5000 {
        assert_eq!(name(&format!("wrong-{number}")), None);
    }
    assert_eq!(Tokens::default().find(b""), None.as_ref());
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.is_same(other)
    }
}

#[test]
fn rights_are_those_of_the_file_and_admin_has_all() {
    let tokens = file();
    let may = |secret: &str| {
        let token = tokens.find(secret.as_bytes()).unwrap();
        Right::ALL.map(|right| token.may(right))
    };
    assert_eq!(may("0123456789abcdef"), [true, true, false, false, false]);
    assert_eq!(may("fedcba9876543210"), [true; 5]);
}

#[test]
fn what_is_wrong_in_a_file_is_named_and_no_secret_is_shown() {
    let token = |lines: &str| format!("[[token]]\n{lines}");
    let good = "name = \"a\"\nsecret = \"SECRETSECRETSECRET\"\nrights = [\"publish\"]\n";
    assert!(Tokens::parse(&token(good)).is_ok());
    for (text, says) in [
        (String::new(), "no [[token]]"),
        (token("name = SECRETSECRETSECRET"), "line 2"),
        (token(&good.replace("rights", "right")), "unknown field"),
        (token(&good.replace("\"a\"", "\"a b\"")), "letters, digits"),
        (
            token(&good.replace("\"a\"", "\"local\"")),
            "another meaning",
        ),
        (
            token(&good.replace("\"a\"", "\"control-token\"")),
            "another meaning",
        ),
        (
            token(&good.replace("SECRETSECRETSECRET", "SECRETSECRET")),
            "12 bytes",
        ),
        (
            token(&good.replace("SECRETSECRETSECRET", "SECRET SECRET SECRET")),
            "a space",
        ),
        (
            token(&good.replace("secret =", "sha256 =")),
            "64 hexadecimal",
        ),
        (
            token(&good.replace("secret = \"SECRETSECRETSECRET\"", "")),
            "either secret or",
        ),
        (
            token(&good.replace("publish", "publsh")),
            "`publsh` is no right",
        ),
        (token(&good.replace("\"publish\"", "")), "no rights"),
        (token(&format!("{good}prefixes = [\"\"]")), "1 to 128 bytes"),
        (
            token(&format!("{good}prefixes = {:?}", ["x"; 65])),
            "more than 64 prefixes",
        ),
        (
            token(&good.replace("\"a\"", &format!("{:?}", "a".repeat(33)))),
            "1 to 32 letters",
        ),
        (
            token(&good.replace("SECRETSECRETSECRET", &"S".repeat(1025))),
            "1025 bytes",
        ),
        (token(good) + &token(good), "another token has this name"),
        (
            token(good) + &token(&good.replace("\"a\"", "\"b\"")),
            "`a` has the same secret",
        ),
    ] {
        let error = Tokens::parse(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(!error.contains("SECRET"), "{error}");
    }
    assert!(!format!("{:?}", file()).contains("0123456789"));
}

#[test]
fn there_are_so_many_tokens_at_most_and_those_of_two_sources_differ() {
    let many = |count: usize| {
        let entry = |number: usize| {
            format!(
                "[[token]]\nname = \"t{number}\"\nsecret = \"0123456789abcdef{number}\"\nrights = \
                 [\"publish\"]\n"
            )
        };
        Tokens::parse(&(0..count).map(entry).collect::<String>())
    };
    assert!(many(TOKENS_MAX).is_ok());
    assert!(many(TOKENS_MAX + 1).is_err());
    let single = || Tokens::single("0123456789abcdef").unwrap();
    assert!(single().and(many(1).unwrap()).is_ok());
    assert!(single().and(file()).is_err(), "the same secret");
    assert!(single().and(many(TOKENS_MAX).unwrap()).is_err());
    let with = single().and(many(1).unwrap()).unwrap();
    assert_eq!(with.names().collect::<Vec<_>>(), ["control-token", "t0"]);
}

#[test]
fn a_reload_keeps_counters_of_tokens_that_stay_and_forgets_the_others() {
    let live = LiveTokens::new(file(), false);
    for secret in ["0123456789abcdef", "fedcba9876543210"] {
        assert!(live.check(Some(secret.as_bytes())).is_ok());
    }
    assert_eq!(live.check(None).unwrap_err(), Denial::NoToken);
    assert_eq!(live.check(Some(b"x")).unwrap_err(), Denial::WrongToken);
    let counts = |live: &LiveTokens| live.counts().requests;
    let count = |name: &str, number| (name.to_owned(), number);
    assert_eq!(
        counts(&live),
        [count("backend", 1), count("local", 0), count("ops", 1)]
    );
    assert!(live.replace(Tokens::default()).is_err(), "one is needed");
    let ops = FILE.split("[[token]]").nth(1).unwrap();
    let one = Tokens::parse(&format!("[[token]]{ops}")).unwrap();
    live.replace(one).unwrap();
    assert_eq!(counts(&live), [count("backend", 1), count("local", 0)]);
    assert!(live.check(Some(b"fedcba9876543210")).is_err());
}
