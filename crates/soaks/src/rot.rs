//! What disks do to a server's files: a bit that flips, a chunk file that is gone.

use anyhow::Result;
use cairn_testkit::{chunk_files, files_below};
use cairn_types::Random;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips a bit of some chunk, sidecar, redo journal or journal of a data directory; of which kind.
///
/// # Errors
/// Where the files cannot be listed or changed.
pub(crate) fn flip_bit(data: &Path, random: &mut Random) -> Result<String> {
    let mut files = files_below(&data.join("chunks"))?;
    files.push(data.join("journal"));
    let Some(path) = random.pick(&files) else { return Ok("nothing".to_owned()) };
    let kind = kind_of(path);
    // The server may have removed it this moment.
    let Ok(file) = File::options().read(true).write(true).open(path) else { return Ok(kind) };
    let length = file.metadata()?.len();
    if length > 0 {
        flip(&file, random.below(length), random.below(8) as u32)?;
    }
    Ok(kind)
}

/// Flips the bit number `bit` of one byte, if there is such a byte.
///
/// # Errors
/// Where the file cannot be read or written.
pub(crate) fn flip(file: &File, at: u64, bit: u32) -> Result<()> {
    let mut byte = [0];
    if file.read_at(&mut byte, at)? == 1 {
        file.write_at(&[byte[0] ^ (1 << bit)], at)?;
    }
    Ok(())
}

/// Removes some chunk file of a data directory; what that was.
///
/// # Errors
/// Where the files cannot be listed.
pub(crate) fn remove_chunk_file(data: &Path, random: &mut Random) -> Result<&'static str> {
    let chunks = chunk_files(data)?;
    let Some(path) = random.pick(&chunks) else { return Ok("nothing") };
    // The server may have removed it this moment.
    let _ = std::fs::remove_file(path);
    Ok("a chunk file")
}

/// `chunk`, `meta`, `redo` by its extension, or the name of a file that has none.
fn kind_of(path: &Path) -> String {
    let kind = path.extension().or(path.file_name());
    kind.unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{flip_bit, remove_chunk_file};
    use cairn_testkit::chunk_files;
    use cairn_types::Random;

    #[test]
    fn one_bit_of_one_file_is_flipped_and_only_a_chunks_bytes_are_removed() {
        let data = std::env::temp_dir().join(format!("rot-{}", std::process::id()));
        let chunks = data.join("chunks/07");
        std::fs::create_dir_all(&chunks).expect("makes");
        let files = [data.join("journal"), chunks.join("7.chunk"), chunks.join("7.meta")];
        files.iter().for_each(|path| std::fs::write(path, [0; 100]).expect("writes"));
        flip_bit(&data, &mut Random::new(1)).expect("flips");
        let read = |path| std::fs::read(path).expect("reads");
        let ones: u32 = files.iter().flat_map(read).map(u8::count_ones).sum();
        assert_eq!(ones, 1);
        assert_eq!(chunk_files(&data).expect("lists"), [files[1].clone()]);
        assert_eq!(remove_chunk_file(&data, &mut Random::new(1)).expect("removes"), "a chunk file");
        assert_eq!(chunk_files(&data).expect("lists").len(), 0);
        assert!(files[0].exists() && files[2].exists());
        std::fs::remove_dir_all(&data).expect("cleans up");
    }
}
