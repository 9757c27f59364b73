//! Circles: files of a crate that import each other, which are one file told in pieces.

use std::collections::{BTreeMap, BTreeSet};

/// Who names what of whom.
pub(crate) type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The circles, each with its files.
pub(crate) fn circles<'a>(edges: &Edges<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: Edges<'a> = edges.keys().map(|file| (*file, reached_from(file, edges))).collect();
    let circle_of = |file: &'a str| -> BTreeSet<&'a str> {
        reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect()
    };
    let circles: BTreeSet<_> = edges.keys().map(|file| circle_of(file)).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

fn reached_from<'a>(start: &'a str, edges: &Edges<'a>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = vec![start];
    while let Some(file) = open.pop() {
        open.extend(edges[file].iter().filter(|next| reached.insert(**next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::circles;
    use crate::imports::Imports;
    use crate::source::Source;

    /// The files of each circle of a crate made of these files.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let source = |(name, text): &(&str, &str)| Source::new(&format!("x/src/{name}"), text);
        let sources: Vec<Source> = files.iter().map(|file| source(file).expect("Rust")).collect();
        let name = |path: &&str| path.trim_start_matches("x/src/").to_owned();
        let circles = circles(&Imports::of_crate("x", &sources).edges());
        circles.iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    #[test]
    fn files_that_name_each_other_are_a_circle() {
        let b = ("b.rs", "use crate::a::{A, c::D};\npub struct B;");
        let circle = vec![vec!["a.rs".to_owned(), "b.rs".to_owned()]];
        for a in
            ["use super::b::B as C;", "fn a() { crate::b::go() }", "fn a() { x!(crate::b::B) }"]
        {
            assert_eq!(found(&[("a.rs", a), b]), circle, "{a}");
        }
        let b_of_caller = "macro_rules! a { ($a:ident) => { $crate::b::B } }";
        assert!(found(&[("a.rs", b_of_caller), b]).is_empty());
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}";
        assert!(found(&[("a.rs", tests), b]).is_empty());
    }

    #[test]
    fn handing_a_childs_name_on_is_no_import_and_using_it_is() {
        let child = ("a/b.rs", "use super::A;\npub struct B;");
        let parent = "mod b;\npub use b::B;\npub struct A;";
        assert!(found(&[("a/mod.rs", parent), child]).is_empty());
        let field = format!("{parent}\npub struct C {{ b: B }}");
        assert_eq!(found(&[("a/mod.rs", &field), child]).len(), 1);
    }

    #[test]
    fn a_name_comes_from_the_file_that_defines_it() {
        let door = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;");
        let files = [door, ("a.rs", "use crate::B;\npub struct A;"), ("b.rs", "use crate::A;")];
        assert_eq!(found(&files), [["a.rs", "b.rs"]]);
    }
}
