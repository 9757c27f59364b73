//! Several sources of one command that would become one and the same thing.

use std::collections::BTreeSet;

/// Takes out those that go where one before them goes: what they were would be lost without a
/// word, and which of them, nobody could say.
pub(crate) fn take_doubled<T, K: Ord>(all: &mut Vec<T>, target: impl Fn(&T) -> K) -> Vec<T> {
    let mut seen = BTreeSet::new();
    let (doubled, first) =
        std::mem::take(all).into_iter().partition(|one| !seen.insert(target(one)));
    *all = first;
    doubled
}

#[cfg(test)]
mod tests {
    use super::take_doubled;

    #[test]
    fn the_first_of_each_target_stays() {
        let mut all = vec!["a/x", "b/y", "b/x", "c/x"];
        assert_eq!(take_doubled(&mut all, |it| it[2..].to_owned()), ["b/x", "c/x"]);
        assert_eq!(all, ["a/x", "b/y"]);
    }
}
