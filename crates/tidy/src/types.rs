//! How large each type is, over how many files it is spread, and which names serve twice.

use crate::imports::Imports;
use crate::source::Source;
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A type's lines: its definition and its `impl` blocks, tests left out.
#[derive(Clone)]
pub(crate) struct TypeSize {
    pub(crate) lines: usize,
    pub(crate) files: usize,
    pub(crate) name: String,
}

/// The types of one crate, the largest first.
pub(crate) fn sizes(imports: &Imports<'_>) -> Vec<TypeSize> {
    // By the file that defines a type, and its name: lines in each file.
    let mut found: BTreeMap<(&str, String), BTreeMap<&str, usize>> = BTreeMap::new();
    for (at, source) in imports.files() {
        let mut parts = Parts::default();
        parts.visit_file(&source.code);
        for (path, lines) in parts.0 {
            let home = imports.file_of(at, &path).unwrap_or(&source.path);
            let name = path.last().cloned().unwrap_or_default();
            *found.entry((home, name)).or_default().entry(&source.path).or_default() += lines;
        }
    }
    let size = |((_, name), parts): ((&str, String), BTreeMap<&str, usize>)| TypeSize {
        lines: parts.values().sum(),
        files: parts.len(),
        name,
    };
    let mut sizes: Vec<TypeSize> = found.into_iter().map(size).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.lines));
    sizes
}

/// Definitions and `impl` blocks of a file: of which type, and how many lines.
#[derive(Default)]
struct Parts(Vec<(Vec<String>, usize)>);

impl Parts {
    fn add(&mut self, path: Vec<String>, item: &impl Spanned) {
        let span = item.span();
        self.0.push((path, span.end().line - span.start().line + 1));
    }
}

impl Visit<'_> for Parts {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.add(vec![item.ident.to_string()], item);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.add(vec![item.ident.to_string()], item);
    }

    fn visit_item_impl(&mut self, item: &syn::ItemImpl) {
        let mut of = &*item.self_ty;
        while let syn::Type::Reference(reference) = of {
            of = &reference.elem;
        }
        if let syn::Type::Path(of) = of {
            let words = of.path.segments.iter().map(|word| word.ident.to_string());
            self.add(words.collect(), item);
        }
        visit::visit_item_impl(self, item);
    }
}

/// The names of types and traits outside tests: where each is defined.
pub(crate) fn names(sources: &[Source]) -> BTreeMap<&str, Vec<&str>> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.contains("/src/")) {
        for ((word, _), (name, _)) in source.words.iter().zip(source.words.iter().skip(1)) {
            let defines = ["struct", "enum", "trait", "union"].contains(&word.as_str());
            if defines && name.starts_with(char::is_uppercase) {
                names.entry(name).or_default().push(&source.path);
            }
        }
    }
    names
}

/// How many asserts stand in a file, tests left out; those at compile time do not count.
pub(crate) fn assert_count(source: &Source) -> usize {
    let mut asserts = Asserts(0);
    asserts.visit_file(&source.code);
    asserts.0
}

struct Asserts(usize);

impl Visit<'_> for Asserts {
    fn visit_item_const(&mut self, _: &syn::ItemConst) {}

    fn visit_macro(&mut self, call: &syn::Macro) {
        let asserts = ["assert", "assert_eq", "assert_ne", "unreachable"];
        self.0 += usize::from(asserts.iter().any(|name| call.path.is_ident(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::{assert_count, names, sizes};
    use crate::imports::Imports;
    use crate::source::Source;

    #[test]
    fn a_type_is_counted_over_all_its_files_and_apart_from_its_namesake() {
        let source = |path, text| Source::new(path, text).expect("Rust");
        let sources = [
            source("x/src/a.rs", "pub struct A {\n    b: B,\n}\nimpl Drop for A {\n}\n"),
            source("x/src/b.rs", "use crate::a;\nimpl a::A {\n\n}\nenum C {}\n"),
            source("x/src/c.rs", "struct A;\n"),
        ];
        let found = sizes(&Imports::of_crate("x", &sources));
        let found: Vec<_> =
            found.iter().map(|size| (size.name.as_str(), size.lines, size.files)).collect();
        assert_eq!(found[0], ("A", 8, 2));
        assert!(found.contains(&("A", 1, 1)));
        assert_eq!(names(&sources)["A"], ["x/src/a.rs", "x/src/c.rs"]);
    }

    #[test]
    fn asserts_count_where_they_run() {
        let text = "const _: () = assert!(true);\nfn a() {\n    assert_eq!(1, b);\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn c() {\n        assert!(d);\n    }\n}\n";
        assert_eq!(assert_count(&Source::new("x/src/a.rs", text).expect("Rust")), 1);
    }
}
