//! The end of a process that looks at a mapped page which the disk cannot read (SIGBUS): it says
//! which, on stderr and in a note that the next start reads.
//!
//! ```text
//!   map ──► MappedRange ──► SLOTS            unreadable page ──► SIGBUS ──► whose range?
//!             with a prepared note                     the place into its note, fdatasync,
//!                                                      a line to stderr, _exit
//! ```
//! - H1: a handler may do next to nothing: no memory, no locks. All that it needs is prepared when
//!   the file is mapped; it puts numbers in, and makes system calls.
//! - H2: what the handler may look at is not freed: who takes a range out of its slot frees it only
//!   where no handler has begun. A handler never returns to what it interrupted.
//! - H3: a SIGBUS that is not for a page of ours ends the process as it does without a handler.
//!
//! Knows ranges of memory and the files behind them. Never knows what is in them.

#![allow(unsafe_code, reason = "a signal's handler has no safe form: H1 and H2")]

use cairn_format::{UNREADABLE_NOTE_SIZE, UnreadableNote};
use std::ffi::c_void;
use std::fs::File;
use std::io::Error;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// Files that a process may have mapped at once: the state's, a checkpoint's, those looked through.
const SLOTS_COUNT: usize = 64;
/// What the kernel reads and maps at once.
const PAGE_SIZE: usize = 4096;

static SLOTS: [AtomicPtr<MappedRange>; SLOTS_COUNT] =
    [const { AtomicPtr::new(null_mut()) }; SLOTS_COUNT];
/// A handler has begun (H2).
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// The first thread that meets such a page ends the process; the others wait for it.
static IS_ENDED: AtomicBool = AtomicBool::new(false);
static EXIT_CODE: AtomicI32 = AtomicI32::new(1);

/// A mapped range, and what is to be said should a page of it not be readable.
struct MappedRange {
    range: Range<usize>,
    /// Where the note goes, made ready for it; none where there is no room for that.
    note_file: Option<Arc<File>>,
    note: [u8; UNREADABLE_NOTE_SIZE],
    /// What is said before and after the place.
    says: [Vec<u8>; 2],
}

/// A range that is watched as long as this lives.
#[derive(Debug)]
pub(crate) struct WatchedRange {
    slot: usize,
}

/// A file that is mapped: its path in its disk's directory, and that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedName<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) path: &'a str,
}

/// From now on a page of a mapped file that cannot be read ends this process with this code, and
/// not by the signal.
///
/// # Errors
/// As the system says.
pub fn end_at_unreadable_pages(exit_code: u8) -> Result<(), Error> {
    EXIT_CODE.store(i32::from(exit_code), Ordering::Relaxed);
    // SAFETY: zeros are a valid value of this plain structure, which is filled in below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the action is whole, and its handler keeps to H1.
    let told = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) };
    if told == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

impl WatchedRange {
    /// Watches the bytes of a mapping of this file.
    ///
    /// # Errors
    /// Where too many files are mapped.
    pub(crate) fn new(
        range: Range<usize>,
        name: MappedName<'_>,
        note_file: Option<Arc<File>>,
    ) -> Result<Self, Error> {
        let note = UnreadableNote { path: name.path.to_owned(), offset: 0 };
        let encoded = note.encode();
        let note_file = note_file.filter(|_| encoded.is_some());
        let next: &[u8] = if note_file.is_some() {
            b" on cannot be read (SIGBUS); start it again, and it goes on without them\n"
        } else {
            b" on cannot be read (SIGBUS), and that could not be noted down; check the disk\n"
        };
        let place = name.directory.join(name.path);
        let first = format!("cairn: the bytes of {} from ", place.display()).into_bytes();
        let note = encoded.unwrap_or([0; UNREADABLE_NOTE_SIZE]);
        let says = [first, next.to_vec()];
        let watched = Box::into_raw(Box::new(MappedRange { range, note_file, note, says }));
        let place_in = |slot: &AtomicPtr<MappedRange>| {
            slot.compare_exchange(null_mut(), watched, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        if let Some(slot) = SLOTS.iter().position(place_in) {
            return Ok(Self { slot });
        }
        // SAFETY: made above, and nobody else has it.
        drop(unsafe { Box::from_raw(watched) });
        Err(Error::other("too many files are mapped"))
    }
}

impl Drop for WatchedRange {
    fn drop(&mut self) {
        let watched = SLOTS[self.slot].swap(null_mut(), Ordering::SeqCst);
        // H2: a handler that has seen this said so before it looked.
        if !IS_ENDING.load(Ordering::SeqCst) {
            // SAFETY: it came from a box, was in this slot alone, and no handler has it.
            drop(unsafe { Box::from_raw(watched) });
        }
    }
}

extern "C" fn on_bus_error(_signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    IS_ENDING.store(true, Ordering::SeqCst);
    // SAFETY: with SA_SIGINFO the kernel hands over what it is about.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    for slot in &SLOTS {
        let watched = slot.load(Ordering::SeqCst);
        // SAFETY: what was in a slot after IS_ENDING was set is not freed (H2).
        let Some(watched) = (unsafe { watched.as_ref() }) else { continue };
        if code == libc::BUS_ADRERR && watched.range.contains(&address) {
            watched.end(address - watched.range.start);
        }
    }
    // H3: it happens again, and nobody is in its way.
    // SAFETY: a call that a handler may make.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

impl MappedRange {
    /// Notes the place, says it, and ends the process.
    fn end(&self, at: usize) -> ! {
        if IS_ENDED.swap(true, Ordering::SeqCst) {
            loop {
                // SAFETY: a call that a handler may make.
                unsafe { libc::pause() };
            }
        }
        let offset = (at / PAGE_SIZE * PAGE_SIZE) as u64;
        if let Some(file) = &self.note_file {
            let mut note = self.note;
            UnreadableNote::put_offset(&mut note, offset);
            let (file, bytes) = (file.as_raw_fd(), note.as_ptr().cast());
            // SAFETY: calls that a handler may make, with bytes that live as long as they take.
            unsafe {
                libc::pwrite(file, bytes, note.len(), 0);
                libc::fdatasync(file);
            }
        }
        let mut digits = [0; 20];
        for part in [&self.says[0], in_digits(offset, &mut digits), &self.says[1]] {
            // SAFETY: as above.
            unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
        }
        // SAFETY: as above; it does not return.
        unsafe { libc::_exit(EXIT_CODE.load(Ordering::Relaxed)) }
    }
}

/// A number as text, without memory of its own.
fn in_digits(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::in_digits;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for number in [0, 7, 10, 4096, u64::MAX] {
            let text = std::str::from_utf8(in_digits(number, &mut [0; 20])).map(str::to_owned);
            assert_eq!(text, Ok(number.to_string()));
        }
    }
}
