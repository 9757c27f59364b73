//! Jobs: work of the cell that takes a while and that a person may ask about (design §9).
//!
//! An id is a text that says what it is of (`repair`, `balance`, `settle`, `drain-…`): it is the
//! same after a restart of the master.

use cairn_types::{ServerId, WallTime};

cairn_types::code! {
    /// What a job does.
    #[derive(Default)]
    pub enum JobKind {
        /// Copies chunks that lack replicas.
        #[default]
        Repair = 1,
        /// Leaves out replicas that a chunk has beyond its goal.
        Surplus = 2,
        /// Takes away what was deleted and is kept no longer.
        Purge = 3,
        /// Empties a server.
        Drain = 4,
        /// Moves chunks from full servers to empty ones.
        Balance = 5,
        /// Brings what exists to what a policy says.
        Policy = 6,
        /// Puts small pieces of streams together.
        Settle = 7,
    }
}
cairn_types::code! {
    /// How a job stands.
    #[derive(Default)]
    pub enum JobState {
        /// It gets on.
        #[default]
        Running = 1,
        /// Nothing can be done for it right now; its note says why.
        Waiting = 2,
        /// It has nothing left to do.
        Done = 3,
    }
}
cairn_types::code! {
    /// What a job counts.
    #[derive(Default)]
    pub enum JobUnit {
        /// Replicas of chunks, made or given up.
        #[default]
        Chunks = 1,
        /// Bytes.
        Bytes = 2,
        /// Names: files, or directories with all below them.
        Names = 3,
    }
}
cairn_types::message! {
    /// One job.
    pub struct JobStatus {
        1 => id: String,
        2 => kind: JobKind,
        /// What it is about: a server, a path; empty where it is the cell.
        3 => subject: String,
        /// In `unit`, since it began in this term.
        4 => done: u64,
        /// The same with what is left as far as that is known now; it may grow.
        5 => total: u64,
        6 => unit: JobUnit,
        /// Thousandths of a unit in a second, of late.
        7 => rate_milli: u64,
        /// None where nothing tells.
        8 => left_ms: Option<u64>,
        9 => state: JobState,
        /// A line for a person; empty where there is nothing to say.
        10 => note: String,
        11 => began: WallTime,
    }
}
cairn_types::message! {
    /// What the cell is at.
    pub struct ListJobs { }
}
cairn_types::message! {
    /// As the master knows it now.
    pub struct ListJobsAnswer { 1 => jobs: Vec<JobStatus> }
}
cairn_types::message! {
    /// Ends a job that a person began; what it has done stays.
    pub struct CancelJob { 1 => id: String }
}
cairn_types::message! {
    /// It is logged.
    pub struct CancelJobAnswer { }
}

cairn_types::code! {
    /// What a person has told a server to be.
    #[derive(Default)]
    pub enum ServerDuty {
        /// It takes what comes.
        #[default]
        Serving = 1,
        /// It is being emptied, and gets nothing new.
        Draining = 2,
        /// It has been emptied: it may be switched off.
        Drained = 3,
    }
}
cairn_types::message! {
    /// A server is to be emptied; `dry_run`: what that would be.
    pub struct Drain { 1 => server: ServerId, 2 => dry_run: bool }
}
cairn_types::message! {
    /// What there is to do.
    pub struct DrainAnswer {
        /// Replicas that it holds.
        1 => chunk_count: u64,
        /// Their bytes.
        2 => stored: u64,
        /// Why it cannot end as the cell is now; empty where it can.
        3 => blocked: String,
    }
}
cairn_types::message! {
    /// A server is emptied no more.
    pub struct Undrain { 1 => server: ServerId }
}
cairn_types::message! {
    /// It is logged.
    pub struct UndrainAnswer { }
}
cairn_types::message! {
    /// Chunks are moved until all servers are equally full, but for so many thousandths of what
    /// each would have; `dry_run`: what that would be.
    pub struct Balance { 1 => threshold_permille: u32, 2 => dry_run: bool }
}
cairn_types::message! {
    /// What there is to do.
    pub struct BalanceAnswer {
        /// Bytes to be moved.
        1 => bytes: u64,
        /// Servers that have too much, and too little.
        2 => over_count: u32,
        3 => under_count: u32,
    }
}
