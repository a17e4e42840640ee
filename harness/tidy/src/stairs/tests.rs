use super::*;

fn source(path: &str, text: &str) -> TextFile {
    TextFile {
        path: format!("crates/it/src/{path}.rs"),
        text: text.to_owned(),
    }
}

/// Returns the names of the files of each circle.
fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let sources: Vec<_> = files
        .iter()
        .map(|(path, text)| source(path, text))
        .collect();
    let name = |path: &String| {
        let path = path.trim_start_matches("crates/it/src/");
        path.trim_end_matches(".rs").to_owned()
    };
    let circles = circles("crates/it", &sources).into_iter();
    circles
        .map(|circle| circle.files.iter().map(name).collect())
        .collect()
}

const LIB: (&str, &str) = ("lib", "mod a; mod b; mod c; mod d;");

#[test]
fn a_circle_of_four_is_refused_and_its_shortest_way_is_told() {
    let sources = [
        source("lib", LIB.1),
        source("a", "use crate::b::B;\npub struct A;"),
        source("b", "pub struct B;\n\nfn f() { crate::c::c() }"),
        source("c", "pub fn c() -> super::d::D {}"),
        source(
            "d",
            "use crate::{\n    a::A,\n    c,\n};\npub struct D(c::C);",
        ),
    ];
    let findings = check("crates/it", &sources);
    assert_eq!(findings.len(), 1);
    let told = findings[0].to_string();
    assert!(
        told.starts_with("crates/it: 4 files use each other"),
        "{told}"
    );
    for file in ["a", "b", "c", "d"] {
        assert!(
            told.contains(&format!("\n    crates/it/src/{file}.rs\n")),
            "{told}"
        );
    }
    assert!(told.contains(
        "way around:
    crates/it/src/c.rs:1: `super::d::D` is in crates/it/src/d.rs
    crates/it/src/d.rs:5: `c::C` is in crates/it/src/c.rs
  3 are allowed: move what"
    ));
}

#[test]
fn a_circle_of_three_is_allowed() {
    let sources = [
        source("lib", LIB.1),
        source("a", "use crate::b::B; pub struct A;"),
        source("b", "use crate::c::C; pub struct B;"),
        source("c", "use crate::a::A; pub struct C;"),
        source("d", "use crate::a::A;"),
    ];
    assert_eq!(circles("crates/it", &sources)[0].files.len(), 3);
    assert_eq!(check("crates/it", &sources), []);
}

#[test]
fn a_parent_that_names_its_child_uses_it_and_a_bare_mod_does_not() {
    let child = ("a/x", "use super::A; pub fn f() {}");
    let lib = ("lib", "mod a;");
    assert_eq!(
        found(&[lib, ("a", "mod x; pub struct A;"), child]),
        [[""; 0]; 0]
    );
    let circle = [["a", "a/x"]];
    assert_eq!(
        found(&[lib, ("a", "mod x; pub struct A; fn g() { x::f() }"), child]),
        circle
    );
    assert_eq!(
        found(&[
            lib,
            ("a", "mod x; pub(crate) use x::f; pub struct A;"),
            child
        ]),
        circle
    );
    assert_eq!(
        found(&[
            lib,
            ("a", "mod x; use self::x::f as g; pub struct A;"),
            child
        ]),
        circle
    );
}

#[test]
fn a_name_that_is_re_exported_belongs_to_the_file_that_defines_it() {
    let a = ("a", "mod x; pub use x::X; fn f() { crate::b::f() }");
    let x = ("a/x", "pub struct X;");
    let lib = ("lib", "mod a; mod b; pub use a::X;");
    assert_eq!(
        found(&[lib, a, x, ("b", "use crate::a::X; pub fn f() {}")]),
        [[""; 0]; 0]
    );
    assert_eq!(
        found(&[lib, a, x, ("b", "use crate::X; pub fn f() {}")]),
        [[""; 0]; 0]
    );
    let b = ("b", "use crate::a::{X, Y}; pub fn f() {}");
    let defines = (
        "a",
        "mod x; pub use x::X; pub struct Y; fn f() { crate::b::f() }",
    );
    assert_eq!(found(&[lib, defines, x, b]), [["a", "b"]]);
}

#[test]
fn names_come_through_globs_and_modules_of_their_own_name() {
    let lib = ("lib", "mod a; mod b; pub use a::*;");
    let b = ("b", "use crate::A; pub fn b() {}");
    assert_eq!(
        found(&[lib, ("a", "use crate::b::b; pub struct A;"), b]),
        [["a", "b"]]
    );
    let lib = ("lib", "mod a; mod b; pub use a::a; pub use b::b;");
    assert_eq!(
        found(&[
            lib,
            ("a", "pub fn a() { crate::b() }"),
            ("b", "pub fn b() { crate::a() }")
        ]),
        [["a", "b"]]
    );
}

#[test]
fn an_import_inside_of_a_function_counts() {
    let a = ("a", "fn f() { use crate::b; b::g() } pub struct A;");
    assert_eq!(
        found(&[LIB, a, ("b", "use crate::a::A;"), ("c", ""), ("d", "")]),
        [["a", "b"]]
    );
}

#[test]
fn a_macro_may_define_a_name() {
    let a = ("a", "make! { A } use crate::b::B;");
    let b = (
        "b",
        "macro_rules! b { () => { $crate::a::A } } pub struct B;",
    );
    assert_eq!(found(&[LIB, a, b, ("c", ""), ("d", "")]), [["a", "b"]]);
}

#[test]
fn tests_comments_strings_and_visibility_do_not_count() {
    let a = ("a", "use crate::b::B; pub struct A;");
    for text in [
        "pub struct B; // crate::a::A",
        "pub struct B; const C: &str = \"crate::a::A\";",
        "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        "pub struct B; #[cfg(any(test, feature = \"sim\"))] use crate::a::A;",
        "pub(in crate::a) struct B;",
        "mod sim; pub struct B;",
        "mod a {} use ::a::A; pub struct B;",
    ] {
        let sim = ("b/sim", "use crate::a::A;");
        assert_eq!(
            found(&[LIB, a, ("b", text), sim, ("c", ""), ("d", "")]),
            [[""; 0]; 0]
        );
    }
}

#[test]
fn programs_are_crates_of_their_own() {
    let main = ("main", "mod a; pub struct M; use a::A;");
    let a = ("a", "use crate::M; pub struct A;");
    assert_eq!(found(&[("lib", "pub struct L;"), main, a]), [["a", "main"]]);
}

#[test]
fn a_module_without_a_file_is_told() {
    let findings = check("crates/it", &[source("lib", "\nmod a;")]);
    assert_eq!(
        findings[0].to_string(),
        "crates/it/src/lib.rs:2: the module `a` has no file beside it"
    );
}
