//! What ids are drawn from (R5, R25).

use std::io::Read;

/// Differs from call to call and from machine to machine.
///
/// # Errors
/// That of reading the system's source.
pub(crate) fn fresh_seed() -> std::io::Result<u64> {
    let mut raw = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut raw)?;
    Ok(u64::from_le_bytes(raw))
}
