//! The processes of the floor: what a bare chain of the same shape costs on this machine, in this
//! minute.
//!
//! ```text
//!   client ──► S1 ──► S2 ──► S3      each: receive 64 KiB, pass on, sum; a frame of 1 MiB goes to
//!          ◄──    ◄──    ◄──         the page cache; one byte back per frame, two frames in flight
//!                                    per hop
//! ```
//! No metadata, no leases, no names: it loses everything and shows what the kernel takes for moving
//! and keeping bytes. Each part is a process, as in a cell, and is measured as a cell's are:
//! clients are connected before the clock starts, and all stay until their CPU times are read.
//!
//! ```text
//!   bench                        a part
//!     │ ◄── "127.0.0.1:4711" ─────  a server listens there; or "ready": a client is connected
//!     │ ──────── "go" ───────────►  a client begins
//!     │ ◄────── "0.213" ──────────  and tells its seconds
//!     │ ── end of stdin ─────────►  exits
//! ```

use crate::error::{BenchError, Doing};
use cairn_types::crc32c;
use clap::ValueEnum;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a frame.
pub(crate) const FRAME_SIZE: usize = 1 << 20;
const PIECE: usize = 64 << 10;
/// Frames in flight on each hop.
const WINDOW: u64 = 2;
/// Hops of the chain.
pub(crate) const HOPS: u64 = 3;
const PAGE_SIZE: usize = 4096;

/// A hidden command: one part of the floor.
#[derive(Debug, clap::Args)]
pub struct FloorPart {
    #[arg(long, value_enum)]
    role: FloorRole,
    /// Where the bytes are kept, or come from
    #[arg(long)]
    file: Option<PathBuf>,
    /// The next server of the chain, or the server to read from
    #[arg(long)]
    next: Option<String>,
    /// Frames of 1 MiB
    #[arg(long)]
    frames: u64,
}

/// What a part does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FloorRole {
    /// A server of the chain: keeps what comes, and passes it on
    Receive,
    /// The client of a write
    Send,
    /// The server of a read
    Serve,
    /// The client of a read
    Read,
    /// Touches so much memory that a run finds it warm, and ends
    Touch,
}

impl FloorRole {
    /// As the command line has it.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no role is skipped");
        value.get_name().to_owned()
    }
}

impl FloorPart {
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        self.play().doing(|| "running a part of the floor".to_owned())
    }

    fn play(&self) -> io::Result<()> {
        match self.role {
            FloorRole::Receive => receive(self.need_file()?, self.next.as_deref(), self.frames)?,
            FloorRole::Send => send(self.need_next()?, self.frames)?,
            FloorRole::Serve => serve(self.need_file()?, self.frames)?,
            FloorRole::Read => read(self.need_next()?, self.frames)?,
            FloorRole::Touch => {
                touch(self.frames);
                return Ok(());
            }
        }
        // The bench reads our CPU time before it closes the pipe.
        io::stdin().lock().read_to_end(&mut Vec::new()).map(drop)
    }

    fn need_file(&self) -> io::Result<&Path> {
        self.file.as_deref().ok_or_else(|| io::Error::other("this part needs --file"))
    }

    fn need_next(&self) -> io::Result<&str> {
        self.next.as_deref().ok_or_else(|| io::Error::other("this part needs --next"))
    }
}

/// A client's work, from the word to begin on; tells its seconds.
fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    println!("ready");
    io::stdin().lock().read_exact(&mut [0; 3])?;
    let begun = Instant::now();
    work()?;
    println!("{}", begun.elapsed().as_secs_f64());
    Ok(())
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Listens on a free port, tells which on stdout, and takes one connection.
fn accept() -> io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A buffer of a frame whose pages are there already.
fn frame() -> Vec<u8> {
    (0..FRAME_SIZE).map(|i| (i * 31 % 251) as u8).collect()
}

fn receive(file: &Path, next: Option<&str>, frames: u64) -> io::Result<()> {
    let file = OpenOptions::new().create_new(true).write(true).open(file)?;
    let mut frame = frame();
    let mut next = next.map(connect).transpose()?;
    let mut from = accept()?;
    let mut answers = [0];
    for index in 0..frames {
        for piece in frame.chunks_mut(PIECE) {
            from.read_exact(piece)?;
            if let Some(next) = &mut next {
                next.write_all(piece)?;
            }
            std::hint::black_box(crc32c(piece));
        }
        file.write_all_at(&frame, index * FRAME_SIZE as u64)?;
        // The answer to an earlier frame, so that this hop never waits for the one it just sent.
        if let Some(next) = &mut next
            && index + 1 >= WINDOW
        {
            next.read_exact(&mut answers)?;
        }
        if next.is_none() || index + 1 >= WINDOW {
            from.write_all(&[1])?;
        }
    }
    if let Some(next) = &mut next {
        for _ in 1..WINDOW.min(frames + 1) {
            next.read_exact(&mut answers)?;
            from.write_all(&[1])?;
        }
    }
    Ok(())
}

fn send(next: &str, frames: u64) -> io::Result<()> {
    let (mut next, frame) = (connect(next)?, frame());
    let (mut answered, mut answer) = (0, [0]);
    timed(|| {
        for sent in 0..frames {
            for piece in frame.chunks(PIECE) {
                std::hint::black_box(crc32c(piece));
            }
            next.write_all(&frame)?;
            while sent + 1 - answered > WINDOW * HOPS {
                next.read_exact(&mut answer)?;
                answered += 1;
            }
        }
        while answered < frames {
            next.read_exact(&mut answer)?;
            answered += 1;
        }
        Ok(())
    })
}

fn serve(file: &Path, frames: u64) -> io::Result<()> {
    let file = File::open(file)?;
    let mut to = accept()?;
    // The client asks, so that nothing is on its way before the clock starts.
    to.read_exact(&mut [0])?;
    let (mut offset, size) = (0, frames * FRAME_SIZE as u64);
    while offset < size {
        let most = usize::try_from(size - offset).unwrap_or(usize::MAX).min(FRAME_SIZE);
        if rustix::fs::sendfile(&to, &file, Some(&mut offset), most)? == 0 {
            return Err(io::Error::other("the floor's file is too short"));
        }
    }
    Ok(())
}

fn read(next: &str, frames: u64) -> io::Result<()> {
    let (mut next, mut frame) = (connect(next)?, frame());
    timed(|| {
        next.write_all(&[1])?;
        for _ in 0..frames {
            next.read_exact(&mut frame)?;
            for piece in frame.chunks(PIECE) {
                std::hint::black_box(crc32c(piece));
            }
        }
        Ok(())
    })
}

/// Has the machine give us so much memory, page by page; it is free, and warm, once we end.
fn touch(frames: u64) {
    let mut held = Vec::new();
    for _ in 0..frames {
        let mut memory = vec![0; FRAME_SIZE];
        memory.iter_mut().step_by(PAGE_SIZE).for_each(|byte| *byte = 1);
        held.push(std::hint::black_box(memory));
    }
}
