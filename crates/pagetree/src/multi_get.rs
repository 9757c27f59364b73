//! Keys that are looked up together: what one waits for from memory, all wait for at once.
//!
//! ```text
//!   every page of one level is touched ─► in each, the child is found ─► the next level
//!   every leaf is touched ─► in each, the group ─► every group is touched ─► in each, the entry
//! ```
//! A look-up in a tree that is larger than the processor's caches waits a dozen times for memory,
//! each time for where to look next. A touch reads a byte and needs nothing from other touches, so
//! the processor has many of them on their way.

use crate::damaged::Damaged;
use crate::node::{ChildPage, InnerPage, OpenedPage};
use crate::prefetch::touch;
use crate::run::{self, KeyLanding};
use crate::tree::Tree;

/// Keys that go down at once: eight, sixteen and thirty-two are alike (`examples/density`).
pub const MULTI_GET_MAX: usize = 16;
/// Lines of a leaf that its table and heads mostly take.
const HEAD_LINES: usize = 4;
/// Lines of a group's body that are touched: about its first half.
const BODY_LINES: usize = 3;

/// What [`Tree::get`] gives for each key, in their order.
pub fn multi_get<'a>(
    tree: &'a Tree,
    keys: &[impl AsRef<[u8]>],
) -> Vec<Result<Option<&'a [u8]>, Damaged>> {
    let mut found = Vec::with_capacity(keys.len());
    for keys in keys.chunks(MULTI_GET_MAX) {
        get_at_once(tree, keys, &mut found);
    }
    found
}

fn get_at_once<'a>(
    tree: &'a Tree,
    keys: &[impl AsRef<[u8]>],
    found: &mut Vec<Result<Option<&'a [u8]>, Damaged>>,
) {
    if tree.root.children.is_empty() {
        return found.extend(keys.iter().map(|_| Ok(None)));
    }
    let source = tree.source.as_deref();
    let mut inners: Vec<Result<&'a InnerPage, Damaged>> = vec![Ok(&tree.root); keys.len()];
    // N4: all of them are as far above the leaves.
    for level in (2..=tree.root.level).rev() {
        let children = children_of(&inners, keys);
        inners.clear();
        inners.extend(children.into_iter().map(|child| match child?.open(level, source)? {
            OpenedPage::Inner(inner) => Ok(inner),
            OpenedPage::Leaf(_) => unreachable!("leaves lie below level 1 (N4)"),
        }));
        inners.iter().flatten().for_each(|inner| inner.separators.touch());
    }
    let children = children_of(&inners, keys);
    let leaves: Vec<Result<&'a [u8], Damaged>> = children
        .iter()
        .map(|child| match (*child)?.open(1, source)? {
            OpenedPage::Leaf(bytes) => Ok(bytes),
            OpenedPage::Inner(_) => unreachable!("level 1 has leaves below it (N4)"),
        })
        .collect();
    leaves.iter().flatten().for_each(|bytes| touch(bytes, 0, HEAD_LINES));
    let landings: Vec<Option<KeyLanding<'a>>> = std::iter::zip(&leaves, keys)
        .map(|(bytes, key)| run::landing(bytes.as_ref().ok()?, key.as_ref()))
        .collect();
    for (bytes, landing) in std::iter::zip(&leaves, &landings) {
        if let (Ok(bytes), Some(landing)) = (bytes, landing) {
            touch(bytes, landing.body(), BODY_LINES);
        }
    }
    for (((child, bytes), landing), key) in children.into_iter().zip(leaves).zip(landings).zip(keys)
    {
        found.push(bytes.and_then(|bytes| {
            let value = landing.and_then(|landing| run::find_in(bytes, key.as_ref(), &landing));
            value.ok_or_else(|| child.expect("its leaf was opened").changed_leaf())
        }));
    }
}

/// Below which child of its page each key is.
fn children_of<'a>(
    inners: &[Result<&'a InnerPage, Damaged>],
    keys: &[impl AsRef<[u8]>],
) -> Vec<Result<&'a ChildPage, Damaged>> {
    let child = |inner: &'a InnerPage, key: &[u8]| &inner.children[inner.index_of(key)];
    let pairs = std::iter::zip(inners, keys);
    pairs.map(|(inner, key)| inner.map(|inner| child(inner, key.as_ref()))).collect()
}
