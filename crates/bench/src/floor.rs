//! The floor: what a bare chain of the same shape costs on this machine, in this minute.
//!
//! ```text
//!   client ──► S1 ──► S2 ──► S3      each: receive 64 KiB, pass on, sum; a frame of 1 MiB goes to
//!          ◄──    ◄──    ◄──         the page cache; one byte back per frame, two frames in flight
//!                                    per hop
//! ```
//! No metadata, no leases, no names: it loses everything and shows what the kernel takes for moving
//! and keeping bytes. Each part is a process, as in a cell.

use crate::error::{BenchError, Doing};
use crate::pairs::StreamRun;
use cairn_types::crc32c;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const FRAME: usize = 1 << 20;
const PIECE: usize = 64 << 10;
/// Frames in flight on each hop.
const WINDOW: u64 = 2;
/// Hops of a chain of three.
const HOPS: u64 = 3;

/// A hidden command: one part of the floor.
#[derive(Debug, clap::Args)]
pub struct FloorPart {
    /// `receive`, `send`, `serve` or `read`
    #[arg(long)]
    role: String,
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

impl FloorPart {
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        self.play().doing(|| "running a part of the floor".to_owned())
    }

    fn play(&self) -> io::Result<()> {
        match self.role.as_str() {
            "receive" => receive(self.need_file()?, self.next.as_deref(), self.frames),
            "send" => send(self.need_next()?, self.frames),
            "serve" => serve(self.need_file()?, self.frames),
            "read" => read(self.need_next()?, self.frames),
            role => Err(io::Error::other(format!("the floor has no part called {role}"))),
        }
    }

    fn need_file(&self) -> io::Result<&Path> {
        self.file.as_deref().ok_or_else(|| io::Error::other("this part needs --file"))
    }

    fn need_next(&self) -> io::Result<&str> {
        self.next.as_deref().ok_or_else(|| io::Error::other("this part needs --next"))
    }
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

fn receive(file: &Path, next: Option<&str>, frames: u64) -> io::Result<()> {
    let file = OpenOptions::new().create_new(true).write(true).open(file)?;
    let mut next = next.map(connect).transpose()?;
    let mut from = accept()?;
    let mut frame = vec![0; FRAME];
    let mut answers = [0];
    for index in 0..frames {
        for piece in frame.chunks_mut(PIECE) {
            from.read_exact(piece)?;
            if let Some(next) = &mut next {
                next.write_all(piece)?;
            }
            std::hint::black_box(crc32c(piece));
        }
        file.write_all_at(&frame, index * FRAME as u64)?;
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
    let mut next = connect(next)?;
    let frame: Vec<u8> = (0..FRAME).map(|i| (i * 31 % 251) as u8).collect();
    let (mut answered, mut answer) = (0, [0]);
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
}

fn serve(file: &Path, frames: u64) -> io::Result<()> {
    let file = File::open(file)?;
    let to = accept()?;
    let (mut offset, size) = (0, frames * FRAME as u64);
    while offset < size {
        let most = usize::try_from(size - offset).unwrap_or(usize::MAX).min(FRAME);
        if rustix::fs::sendfile(&to, &file, Some(&mut offset), most)? == 0 {
            return Err(io::Error::other("the floor's file is too short"));
        }
    }
    Ok(())
}

fn read(next: &str, frames: u64) -> io::Result<()> {
    let mut next = connect(next)?;
    let mut frame = vec![0; FRAME];
    for _ in 0..frames {
        next.read_exact(&mut frame)?;
        for piece in frame.chunks(PIECE) {
            std::hint::black_box(crc32c(piece));
        }
    }
    Ok(())
}

/// A part that runs; ended when dropped.
struct FloorProcess(Child);

impl Drop for FloorProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl FloorProcess {
    fn start(role: &str, file: Option<&Path>, next: Option<&str>, frames: u64) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["floor-part", "--role", role, "--frames", &frames.to_string()]);
        if let Some(file) = file {
            command.arg("--file").arg(file);
        }
        if let Some(next) = next {
            command.args(["--next", next]);
        }
        Ok(Self(command.stdout(Stdio::piped()).spawn()?))
    }

    /// The address that a listening part prints.
    fn address(&mut self) -> io::Result<String> {
        let stdout = self.0.stdout.as_mut().ok_or_else(|| io::Error::other("no pipe"))?;
        let (mut line, mut byte) = (String::new(), [0]);
        while stdout.read(&mut byte)? == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        Ok(line)
    }

    /// Waits for its end; the CPU seconds it used.
    fn finish(mut self) -> io::Result<f64> {
        let pid = rustix::process::Pid::from_child(&self.0);
        // Exited but not yet reaped: the kernel still knows what it used.
        rustix::process::waitid(
            rustix::process::WaitId::Pid(pid),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )?;
        let cpu = crate::cpu::seconds(&[self.0.id()]);
        let status = self.0.wait()?;
        if !status.success() {
            return Err(io::Error::other(format!("a part of the floor failed: {status}")));
        }
        Ok(cpu)
    }
}

/// The floor of one pair: a chain's fresh files, removed when dropped.
pub(crate) struct Floor {
    files: Vec<PathBuf>,
    frames: u64,
}

impl Floor {
    /// A chain of three that will write `megabytes` into files in `directory`.
    pub(crate) fn new(directory: &Path, pair: u64, megabytes: u64) -> Self {
        let file = |hop| directory.join(format!("floor-{pair}-{hop}"));
        Self { files: (0..HOPS).map(file).collect(), frames: megabytes }
    }

    /// One write down the chain.
    pub(crate) fn write(&self) -> Result<StreamRun, BenchError> {
        self.write_files().doing(|| "running the floor of a write".to_owned())
    }

    fn write_files(&self) -> io::Result<StreamRun> {
        let mut parts = Vec::new();
        let mut next: Option<String> = None;
        for file in self.files.iter().rev() {
            let mut part =
                FloorProcess::start("receive", Some(file), next.as_deref(), self.frames)?;
            next = Some(part.address()?);
            parts.push(part);
        }
        let begun = Instant::now();
        parts.push(FloorProcess::start("send", None, next.as_deref(), self.frames)?);
        self.finish(parts, begun)
    }

    /// One read of the first server's file, which is warm from the write.
    pub(crate) fn read(&self) -> Result<StreamRun, BenchError> {
        self.read_file().doing(|| "running the floor of a read".to_owned())
    }

    fn read_file(&self) -> io::Result<StreamRun> {
        let mut server = FloorProcess::start("serve", Some(&self.files[0]), None, self.frames)?;
        let address = server.address()?;
        let begun = Instant::now();
        let client = FloorProcess::start("read", None, Some(&address), self.frames)?;
        self.finish(vec![server, client], begun)
    }

    fn finish(&self, parts: Vec<FloorProcess>, begun: Instant) -> io::Result<StreamRun> {
        // The client was started last and ends last but for its servers.
        let mut cpu_seconds = 0.0;
        for part in parts.into_iter().rev() {
            cpu_seconds += part.finish()?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(StreamRun { bytes: self.frames * FRAME as u64, seconds, cpu_seconds })
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}
