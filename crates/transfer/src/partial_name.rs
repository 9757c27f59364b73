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
pub fn cell_partial_name(target: &CellPath) -> Result<CellPath, PathError> {
    let name = partial_name(target.name().unwrap_or_default(), "put", NAME_SIZE_MAX);
    target.parent().unwrap_or_default().join(&name)
}

/// For a file that is being fetched.
#[must_use]
pub fn local_partial_name(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(partial_name(&name, "get", LOCAL_NAME_SIZE_MAX))
}

fn partial_name(name: &str, verb: &str, size_max: usize) -> String {
    let ending = format!(".{verb}-{:016x}", RandomState::new().hash_one(name));
    let kept = name.floor_char_boundary(size_max - ending.len() - ".".len());
    format!(".{}{ending}", &name[..kept])
}

#[cfg(test)]
mod tests {
    use super::{cell_partial_name, local_partial_name};
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
}
