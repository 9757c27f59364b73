//! Which file of a crate takes a name from which: `use`, and paths such as `leases::grant`.
//!
//! A name counts as taken from the file that defines it, not from the one that hands it on with
//! `pub use`; handing on is no import, nor is declaring a child with `mod`, nor calling a method.

use crate::circles::Edges;
use crate::source::Source;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// A path's words, or a module's from the crate's root.
type Path = Vec<String>;
/// How many times a name may be handed on before it is given up.
const ALIASES_MAX: usize = 16;

/// The files of one crate, and what they name.
pub(crate) struct Imports<'a> {
    modules: BTreeMap<Path, Module<'a>>,
}

struct Module<'a> {
    source: &'a Source,
    names: Names,
}

/// The names that a file takes and hands on.
#[derive(Default)]
struct Names {
    /// What each name that a `use` binds stands for; true where it is handed on.
    uses: BTreeMap<String, (Path, bool)>,
    /// Paths of two words or more.
    paths: BTreeSet<Path>,
}

impl<'a> Imports<'a> {
    /// Of the files below `folder`, tests left out.
    pub(crate) fn of_crate(folder: &str, sources: &'a [Source]) -> Self {
        let root = format!("{folder}/src/");
        let mut modules = BTreeMap::new();
        for source in sources {
            let Some(path) = source.path.strip_prefix(&root) else { continue };
            let path = path.trim_end_matches(".rs");
            let words = path.split('/').filter(|word| !["mod", "lib", "main"].contains(word));
            let mut names = Names::default();
            names.visit_file(&source.code);
            modules.insert(words.map(str::to_owned).collect(), Module { source, names });
        }
        Self { modules }
    }

    /// Each module's path and file.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&[String], &'a Source)> {
        self.modules.iter().map(|(at, module)| (at.as_slice(), module.source))
    }

    /// From which other files each file takes names.
    pub(crate) fn edges(&self) -> Edges<'a> {
        let edges_of = |(at, module): (&Path, &Module<'a>)| {
            let named =
                |name: &str| module.source.words.iter().filter(|(word, _)| word == name).count();
            let uses = module.names.uses.iter().filter(|(name, (_, hands_on))| {
                !hands_on || named(name) > 1 // Handed on and taken too.
            });
            let paths = uses.map(|(_, (path, _))| path).chain(&module.names.paths);
            let files = paths.filter_map(|path| self.file_of(at, path));
            let others = files.filter(|file| *file != module.source.path).collect();
            (module.source.path.as_str(), others)
        };
        self.modules.iter().map(edges_of).collect()
    }

    /// The file that defines what a path names in the module `at`; none for another crate's, or
    /// for a module itself.
    pub(crate) fn file_of(&self, at: &[String], path: &[String]) -> Option<&'a str> {
        let mut path = self.absolute(at, path)?;
        for _ in 0..ALIASES_MAX {
            let depth = (0..=path.len()).rev().find(|n| self.modules.contains_key(&path[..*n]))?;
            let module = &self.modules[&path[..depth]];
            let name = path.get(depth)?;
            let Some((target, _)) = module.names.uses.get(name) else {
                return Some(&module.source.path);
            };
            let rest = path.split_off(depth + 1);
            path.truncate(depth);
            path = self.absolute(&path, target)?;
            path.extend(rest);
        }
        None
    }

    /// A path as written in the module `at`, from the crate's root.
    fn absolute(&self, at: &[String], path: &[String]) -> Option<Path> {
        let (head, rest) = path.split_first()?;
        let mut base = match head.as_str() {
            "crate" => Vec::new(),
            "self" => at.to_vec(),
            "super" => at.split_last()?.1.to_vec(),
            name => {
                let mut child = at.to_vec();
                child.push(name.to_owned());
                let used = self.modules.get(at).is_some_and(|m| m.names.uses.contains_key(name));
                if !used && !self.modules.contains_key(&child) {
                    return None;
                }
                child
            }
        };
        for word in rest {
            if word == "super" {
                base.pop()?;
            } else {
                base.push(word.clone());
            }
        }
        Some(base)
    }
}

impl Names {
    fn add_use(&mut self, tree: &syn::UseTree, before: &mut Path, hands_on: bool) {
        let mut bind = |name: &syn::Ident, path: Path| {
            self.uses.insert(name.to_string(), (path, hands_on));
        };
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_use(&path.tree, before, hands_on);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, before, hands_on);
                }
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last().cloned() {
                    self.uses.insert(last, (before.clone(), hands_on));
                }
            }
            syn::UseTree::Name(name) => {
                bind(&name.ident, [before.as_slice(), &[name.ident.to_string()]].concat());
            }
            syn::UseTree::Rename(rename) => {
                bind(&rename.rename, [before.as_slice(), &[rename.ident.to_string()]].concat());
            }
            _ => {}
        }
    }

    /// Paths within a macro's words; one of `$crate` is taken by whoever calls the macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Path = Vec::new();
        let mut between = String::new();
        for tree in tokens {
            let (word, inner) = match tree {
                TokenTree::Punct(punct) => {
                    between.push(punct.as_char());
                    continue;
                }
                TokenTree::Ident(word) => (word.to_string(), None),
                TokenTree::Group(group) => (String::new(), Some(group.stream())),
                TokenTree::Literal(_) => (String::new(), None),
            };
            if between != "::" {
                self.add_path(std::mem::take(&mut path));
            }
            path.push(if between.ends_with('$') { format!("${word}") } else { word });
            between.clear();
            inner.into_iter().for_each(|inner| self.add_tokens(inner));
        }
        self.add_path(path);
    }

    fn add_path(&mut self, path: Path) {
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}

impl Visit<'_> for Names {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let hands_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.add_use(&item.tree, &mut Vec::new(), hands_on);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        self.add_path(path.segments.iter().map(|word| word.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }
}
