//! Prints circles of modules: `stairs [--root DIR] [CRATE]...`.

#![allow(clippy::unwrap_used, reason = "a tool may fail where it stands")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use tidy::files;
use tidy::stairs::{self, Circle};

fn main() {
    let mut root = if PathBuf::from("Cargo.lock").exists() {
        PathBuf::from(".")
    } else {
        files::root()
    };
    let mut wanted = Vec::new();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--root" {
            root = arguments.next().expect("--root needs a directory").into();
        } else {
            wanted.push(argument);
        }
    }
    let sources = files::rust_sources(&root).unwrap();
    for room in files::ROOMS {
        let Ok(entries) = fs::read_dir(root.join(room)) else {
            continue;
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for name in names {
            if wanted.is_empty() || wanted.contains(&name) {
                for circle in stairs::circles(&format!("{room}/{name}"), &sources) {
                    print(&name, &circle, !wanted.is_empty());
                }
            }
        }
    }
}

fn print(name: &str, circle: &Circle, with_arrows: bool) {
    let files = circle.files.len();
    println!(
        "{name}: a circle of {files} files, {} uses",
        circle.arrows.len()
    );
    if !with_arrows {
        return;
    }
    for file in &circle.files {
        println!("    {file}");
    }
    println!("  shortest way around:");
    for arrow in &circle.shortest {
        println!("    {arrow}");
    }
    println!("  all uses inside, by the file that is used:");
    let mut used: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for arrow in &circle.arrows {
        let names = used.entry(&arrow.to).or_default();
        let names = names.entry(&arrow.from).or_default();
        // Variants and methods of a type that is imported tell nothing more.
        if !arrow.path.starts_with(char::is_uppercase) || names.is_empty() {
            names.push(format!("{} {}", arrow.line, arrow.path));
        }
    }
    for (file, users) in used {
        println!("    {file}");
        for (user, names) in users {
            println!("      in {user}: {}", names.join(", "));
        }
    }
    println!("  files left in the largest circle without:");
    for (rest, cut) in stairs::cuts(circle).into_iter().take(12) {
        println!("    {rest:>3} {cut}");
    }
}
