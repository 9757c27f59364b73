//! What a file is called before all of it is there: `.name.put-1f3a…`, hidden and beside its
//! target, another one each time, so that no two uploads or downloads meet.

use cairn_types::{CellPath, NAME_SIZE_MAX, PathError};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// A local file name's bytes, on every common file system.
const LOCAL_NAME_SIZE_MAX: usize = 255;

/// For a file that is being stored.
///
/// # Errors
/// Where the target's own directory has no room for any more name.
pub(crate) fn cell_partial_name(target: &CellPath) -> Result<CellPath, PathError> {
    let name = partial_name(target.name().unwrap_or_default(), "put", NAME_SIZE_MAX);
    target.parent().unwrap_or_default().join(&name)
}

/// For a file that is being fetched.
pub(crate) fn local_partial_name(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(partial_name(&name, "get", LOCAL_NAME_SIZE_MAX))
}

/// A text in which the cell speaks of the partial name of `target`, with the target's own name
/// instead: nobody has asked for the other one.
#[must_use]
pub fn without_partial_name(text: &str, target: &CellPath) -> String {
    let name = target.name().unwrap_or_default();
    let start = start(name, "put", NAME_SIZE_MAX);
    let Some(at) = text.find(&start) else { return text.to_owned() };
    let rest = &text[at + start.len()..];
    let rest = rest.trim_start_matches(|character: char| character.is_ascii_hexdigit());
    format!("{}{name}{rest}", &text[..at])
}

/// Hexadecimal digits at the end of a partial name.
const DIGITS: usize = 16;

fn partial_name(name: &str, verb: &str, size_max: usize) -> String {
    let random = RandomState::new().hash_one(name);
    format!("{}{random:0DIGITS$x}", start(name, verb, size_max))
}

/// `.name.put-`, cut so that it fits with what follows.
fn start(name: &str, verb: &str, size_max: usize) -> String {
    let ending = format!(".{verb}-");
    let kept = name.floor_char_boundary(size_max - ending.len() - DIGITS - ".".len());
    format!(".{}{ending}", &name[..kept])
}

#[cfg(test)]
mod tests {
    use super::{cell_partial_name, local_partial_name, without_partial_name};
    use cairn_types::CellPath;
    use std::path::Path;

    #[test]
    fn the_partial_name_of_the_longest_name_is_no_longer_and_no_two_are_the_same() {
        let target = CellPath::parse(&format!("/d/{}", "ä".repeat(127))).expect("fits");
        let [one, two] = [(); 2].map(|()| cell_partial_name(&target).expect("fits too"));
        assert_ne!(one, two);
        assert_eq!(one.parent(), target.parent());
        let (one, two) = ("𝕏".repeat(63), "𝕏".repeat(62));
        let [one, two] = [one, two].map(|name| local_partial_name(&Path::new("/d").join(name)));
        assert_ne!(one, two);
        assert!(one.as_os_str().len() <= "/d/".len() + 255);
        assert_eq!(one.parent(), Some(Path::new("/d")));
    }

    #[test]
    fn a_text_of_the_cell_speaks_of_the_target() {
        let target = CellPath::parse("/no/x").expect("a path");
        let partial = cell_partial_name(&target).expect("fits");
        let told = without_partial_name(&format!("{partial}: no such directory"), &target);
        assert_eq!(told, "/no/x: no such directory");
        assert_eq!(without_partial_name("too few servers", &target), "too few servers");
    }
}
