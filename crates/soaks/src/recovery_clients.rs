//! Clients that read and append while a cell in a laboratory recovers: what they get before, and
//! what they get meanwhile.

use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes that one turn of a client moves.
pub(crate) const TURN_SIZE: u64 = 16 << 20;

/// Bytes a second of each kind of client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientRates {
    pub(crate) read: f64,
    pub(crate) append: f64,
}

/// Takes turns until told to stop, one at least; bytes a second over all of them.
fn turns(stop: &AtomicBool, mut turn: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begun, mut count) = (Instant::now(), 0);
    while count == 0 || !stop.load(Ordering::Relaxed) {
        turn()?;
        count += 1;
    }
    Ok((count * TURN_SIZE) as f64 / begun.elapsed().as_secs_f64())
}

/// Has a client read and another append for as long as `meanwhile` takes.
///
/// # Errors
/// Where one of them is refused, or `meanwhile` fails.
pub(crate) fn measure(
    read: impl FnMut() -> Result<()> + Send,
    append: impl FnMut() -> Result<()> + Send,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<ClientRates> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| turns(&stop, read));
        let appender = scope.spawn(|| turns(&stop, append));
        let done = meanwhile();
        stop.store(true, Ordering::Relaxed);
        let (read, append) = match (reader.join(), appender.join()) {
            (Ok(read), Ok(append)) => (read?, append?),
            _ => bail!("a thread of a client panicked"),
        };
        done.map(|()| ClientRates { read, append })
    })
}
