//! Modules of a crate: their names, and the paths in their text.

use std::collections::{BTreeMap, HashMap};

use super::Arrow;
use super::lexer::{Kind, Token, product_tokens};
use crate::files::TextFile;

/// Most re-exports between a name and its definition.
const REEXPORTS_MAX: usize = 16;

/// The modules below one root: `lib.rs`, `main.rs` or a file of `bin`.
#[derive(Debug, Default)]
pub(super) struct Modules<'a> {
    modules: Vec<Module<'a>>,
    /// Paths of files. The first is the root.
    pub(super) files: Vec<&'a str>,
    paths: Vec<NamedPath<'a>>,
    /// `mod` items whose files are missing: file, line and name.
    pub(super) missing: Vec<(&'a str, usize, &'a str)>,
}

/// A path that a file names.
#[derive(Debug)]
struct NamedPath<'a> {
    module: usize,
    segments: Vec<&'a str>,
    line: usize,
    is_glob: bool,
}

#[derive(Debug, Default)]
struct Module<'a> {
    file: usize,
    parent: Option<usize>,
    /// What a name stands for: a name may be a type, a value, a macro and a module at once.
    names: HashMap<&'a str, Vec<Definition<'a>>>,
    /// Names that a `use` inside of a function imports.
    local: HashMap<&'a str, Vec<Definition<'a>>>,
    globs: Vec<Vec<&'a str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Definition<'a> {
    Item,
    Module(usize),
    Import(Vec<&'a str>),
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(usize),
    /// An item of a module.
    Item(usize),
}

impl<'a> Modules<'a> {
    /// Reads the modules below the file `root`.
    pub(super) fn read(sources: &BTreeMap<&'a str, &'a TextFile>, root: &'a str) -> Self {
        let mut modules = Self::default();
        let directory = root.rsplit_once('/').map_or("", |(directory, _)| directory);
        modules.add_file(sources, root, directory.to_owned(), None);
        modules
    }

    /// Returns each use of another file, in the order of the text.
    pub(super) fn uses(&self) -> Vec<Arrow> {
        let mut uses = Vec::new();
        for path in &self.paths {
            let from = self.modules[path.module].file;
            let to = match self.resolve(path.module, &path.segments, 0) {
                Some(Target::Item(module)) => self.modules[module].file,
                Some(Target::Module(module)) if path.is_glob => self.modules[module].file,
                // A module that is imported is used where a path goes through it.
                Some(Target::Module(_)) | None => continue,
            };
            if from != to {
                uses.push(Arrow {
                    from: self.files[from].to_owned(),
                    line: path.line,
                    path: path.segments.join("::"),
                    to: self.files[to].to_owned(),
                });
            }
        }
        uses
    }

    fn add_file(
        &mut self,
        sources: &BTreeMap<&'a str, &'a TextFile>,
        path: &'a str,
        children: String,
        parent: Option<usize>,
    ) -> usize {
        let file = self.files.len();
        self.files.push(path);
        let tokens = product_tokens(&sources[path].text);
        let module = self.add_module(file, parent);
        let mut scanner = Scanner {
            modules: self,
            sources,
            tokens: &tokens,
            at: 0,
            path,
        };
        scanner.module(module, &children);
        module
    }

    fn add_module(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    fn resolve(&self, module: usize, path: &[&str], depth: usize) -> Option<Target> {
        if depth > REEXPORTS_MAX {
            return None;
        }
        let (&first, rest) = path.split_first()?;
        let mut target = match first {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.modules[module].parent?),
            name => self.look_up(module, name, true, rest.is_empty(), depth)?,
        };
        for (at, &name) in rest.iter().enumerate() {
            let Target::Module(module) = target else {
                // The rest names a variant, a method or a constant of the item.
                return Some(target);
            };
            target = match name {
                "self" => target,
                "super" => Target::Module(self.modules[module].parent?),
                // A name that is not found is one that a macro defines here.
                name => self
                    .look_up(module, name, false, at + 1 == rest.len(), depth)
                    .unwrap_or(Target::Item(module)),
            };
        }
        Some(target)
    }

    /// Returns what `name` stands for in a module. The last name of a path is rather an item than a
    /// module.
    fn look_up(
        &self,
        module: usize,
        name: &str,
        with_local: bool,
        is_last: bool,
        depth: usize,
    ) -> Option<Target> {
        let scope = &self.modules[module];
        let local = scope.local.get(name).filter(|_| with_local);
        let definitions = local.into_iter().chain(scope.names.get(name)).flatten();
        let mut found: Vec<Target> = definitions
            .filter_map(|definition| match definition {
                Definition::Item => Some(Target::Item(module)),
                Definition::Module(child) => Some(Target::Module(*child)),
                // `use name::name` must not look for itself.
                Definition::Import(path) if path[..] == [name] => None,
                Definition::Import(path) => self.resolve_import(module, name, path, depth + 1),
            })
            .collect();
        if found.is_empty() && depth < REEXPORTS_MAX {
            found.extend(scope.globs.iter().find_map(|glob| {
                match self.resolve(module, glob, depth + 1)? {
                    Target::Module(source) if source != module => {
                        self.look_up(source, name, false, is_last, depth + 1)
                    }
                    _ => None,
                }
            }));
        }
        let is_item = |target: &&Target| matches!(target, Target::Item(_));
        let preferred = found.iter().find(|it| is_item(it) == is_last);
        preferred.or(found.first()).copied()
    }

    /// Resolves a path of a `use` in `module` that imports `name`.
    fn resolve_import(
        &self,
        module: usize,
        name: &str,
        path: &[&str],
        depth: usize,
    ) -> Option<Target> {
        // In `use event::event`, the first `event` is a module or a crate, not the name itself.
        let child = match self.modules[module].names.get(name) {
            Some(definitions) if path[0] == name => {
                definitions.iter().find_map(|definition| match definition {
                    Definition::Module(child) => Some(*child),
                    _ => None,
                })?
            }
            _ => return self.resolve(module, path, depth),
        };
        let mut inside = vec!["self"];
        inside.extend(&path[1..]);
        self.resolve(child, &inside, depth)
    }
}

/// A pass over the tokens of one file.
struct Scanner<'s, 'a> {
    modules: &'s mut Modules<'a>,
    sources: &'s BTreeMap<&'a str, &'a TextFile>,
    tokens: &'s [Token<'a>],
    at: usize,
    path: &'a str,
}

impl<'a> Scanner<'_, 'a> {
    fn kind(&self, ahead: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        match self.kind(ahead) {
            Some(Kind::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Reads up to the end of a module. `children` is the directory of the files of its modules.
    fn module(&mut self, module: usize, children: &str) {
        let mut depth = 0_usize;
        while let Some(kind) = self.kind(0) {
            match kind {
                Kind::Mark('{' | '(' | '[') => depth += 1,
                Kind::Mark('}') if depth == 0 => return,
                Kind::Mark('}' | ')' | ']') => depth = depth.saturating_sub(1),
                Kind::Mark('$') if self.word(1).is_some_and(|word| word != "crate") => {
                    self.at += 1;
                }
                // A method or a field, or a path from the root of all crates.
                Kind::Mark('.') | Kind::PathSeparator if self.word(1).is_some() => {
                    self.at += 1;
                }
                Kind::Word("pub") => self.visibility(),
                Kind::Word("use") if self.kind(1) != Some(Kind::Mark('<')) => {
                    self.at += 1;
                    self.use_tree(module, &[], depth > 0);
                }
                Kind::Word("mod") if depth == 0 => self.child(module, children),
                Kind::Word(word) => {
                    if depth == 0 {
                        self.definition(module, word);
                    }
                    self.inline_path(module);
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Skips `(crate)`, `(super)` and `(in path)` behind `pub`.
    fn visibility(&mut self) {
        let restricted = matches!(self.word(2), Some("crate" | "super" | "self" | "in"));
        if self.kind(1) != Some(Kind::Mark('(')) || !restricted {
            return;
        }
        if self.word(2) == Some("in") || self.kind(3) == Some(Kind::Mark(')')) {
            while self.kind(0).is_some_and(|kind| kind != Kind::Mark(')')) {
                self.at += 1;
            }
        }
    }

    fn define(&mut self, module: usize, name: &'a str, definition: Definition<'a>, local: bool) {
        let module = &mut self.modules.modules[module];
        let names = if local {
            &mut module.local
        } else {
            &mut module.names
        };
        names.entry(name).or_default().push(definition);
    }

    fn definition(&mut self, module: usize, keyword: &str) {
        let name = match keyword {
            "macro_rules" => self.word(2),
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                self.word(1)
            }
            _ => None,
        };
        let is_keyword = |name: &str| matches!(name, "fn" | "unsafe" | "async" | "extern" | "mut");
        if let Some(name) = name.filter(|name| !is_keyword(name)) {
            self.define(module, name, Definition::Item, false);
        }
    }

    /// Reads `mod name;` or `mod name { … }`.
    fn child(&mut self, module: usize, children: &str) {
        let Some(name) = self.word(1) else {
            return;
        };
        let line = self.tokens[self.at].line;
        self.at += 2;
        let directory = format!("{children}/{name}");
        if self.kind(0) == Some(Kind::Mark('{')) {
            let child = self
                .modules
                .add_module(self.modules.modules[module].file, Some(module));
            self.define(module, name, Definition::Module(child), false);
            self.at += 1;
            self.module(child, &directory);
            return;
        }
        let Some((&path, _)) = self.sources.get_key_value(&*format!("{directory}.rs")) else {
            self.modules.missing.push((self.path, line, name));
            return;
        };
        if !super::is_test(path) {
            let child = self
                .modules
                .add_file(self.sources, path, directory, Some(module));
            self.define(module, name, Definition::Module(child), false);
        }
    }

    /// Reads a path of two segments or more that is not in a `use`, up to its last segment.
    fn inline_path(&mut self, module: usize) {
        let line = self.tokens[self.at].line;
        let mut segments = Vec::new();
        segments.extend(self.word(0));
        while self.kind(1) == Some(Kind::PathSeparator)
            && let Some(word) = self.word(2)
        {
            segments.push(word);
            self.at += 2;
        }
        if segments.len() > 1 {
            self.modules.paths.push(NamedPath {
                module,
                segments,
                line,
                is_glob: false,
            });
        }
    }

    /// Reads one branch of a `use`, from its first token up to the `,`, `}` or `;` behind it.
    fn use_tree(&mut self, module: usize, prefix: &[&'a str], local: bool) {
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        let mut segments = prefix.to_vec();
        if segments.is_empty() && self.kind(0) == Some(Kind::PathSeparator) {
            // A path from the root of all crates: no module has this name.
            segments.push("::");
        }
        while let Some(kind) = self.kind(0) {
            match kind {
                Kind::Word("as") => break,
                Kind::Word(word) => segments.push(word),
                Kind::PathSeparator => {}
                Kind::Mark('*') => {
                    self.modules.modules[module].globs.push(segments.clone());
                    self.modules.paths.push(NamedPath {
                        module,
                        segments,
                        line,
                        is_glob: true,
                    });
                    self.at += 1;
                    return;
                }
                Kind::Mark('{') => {
                    while self.kind(0).is_some_and(|kind| kind != Kind::Mark('}')) {
                        self.at += 1;
                        if self.kind(0) != Some(Kind::Mark('}')) {
                            self.use_tree(module, &segments, local);
                        }
                    }
                    self.at += 1;
                    return;
                }
                _ => break,
            }
            self.at += 1;
        }
        if segments.len() > 1 && segments.last() == Some(&"self") {
            segments.pop();
        }
        let mut name = segments.last().copied();
        if self.word(0) == Some("as") {
            name = self.word(1);
            self.at += 2;
        }
        if let Some(name) = name
            && !segments.is_empty()
        {
            self.define(module, name, Definition::Import(segments.clone()), local);
            self.modules.paths.push(NamedPath {
                module,
                segments,
                line,
                is_glob: false,
            });
        }
    }
}
