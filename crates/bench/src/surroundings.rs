//! What a measurement is given: how many clients, and where its files and processes go.

use crate::error::{BenchError, Doing};
use crate::printer::Printer;
use cairn_client::Options;
use cairn_testkit::{Janitor, Program};
use clap::Args;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

/// How many clients, and where the cell lies.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadShape {
    /// Client processes [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) processes: Option<u64>,
    /// Callers in each process [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) callers: Option<u64>,
    /// Where data is kept while it runs [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Room for the servers' diagnostic logs; none: without [default: as a server has it]
    #[arg(long, value_name = "SIZE")]
    pub(crate) rpclog_size: Option<String>,
}

/// What every measurement needs.
pub(crate) struct Surroundings {
    pub(crate) options: Options,
    pub(crate) printer: Printer,
    /// Where its files go, until the janitor removes them.
    pub(crate) directory: PathBuf,
    pub(crate) program: Program,
    pub(crate) janitor: Arc<Janitor>,
    /// What every server of a bench is started with.
    pub(crate) server_arguments: Vec<String>,
}

impl Surroundings {
    /// Makes the directory.
    ///
    /// # Errors
    /// Where this machine does not let us.
    pub(crate) fn prepare(
        shape: &LoadShape,
        options: &Options,
        json: bool,
    ) -> Result<Self, BenchError> {
        let doing = || "preparing the bench".to_owned();
        let name = format!("cairn-bench-{:016x}", RandomState::new().hash_one(std::process::id()));
        let above = shape.data.clone().unwrap_or_else(std::env::temp_dir);
        let directory = above.join(name);
        std::fs::create_dir_all(&directory).doing(doing)?;
        let program = Program::this().doing(doing)?;
        let janitor = Arc::new(Janitor::start(&program, Some(&directory)).doing(doing)?);
        let printer = Printer::stdout(json);
        let size = shape.rpclog_size.iter().cloned();
        let server_arguments = size.flat_map(|size| ["--rpclog-size".to_owned(), size]).collect();
        let options = options.clone();
        Ok(Self { options, printer, directory, program, janitor, server_arguments })
    }
}
