//! The cell that a bench measures: processes of its own, so that their CPU seconds can be told.

use crate::cpu;
use crate::error::{BenchError, Doing};
use crate::load::{Load, LoadFigures, RunningLoad};
use crate::surroundings::Surroundings;
use cairn_testkit::{CellPlan, CellProcesses, ServerProcess};

pub(crate) struct OwnCell {
    processes: CellProcesses,
}

impl OwnCell {
    /// Starts it and waits until every chunkserver has joined.
    pub(crate) fn start(chunkservers: u64, around: &Surroundings) -> Result<Self, BenchError> {
        let count = usize::try_from(chunkservers).expect("the command line takes at most 3");
        let directory = around.directory.join("cell");
        let plan = CellPlan {
            servers_per_rack: 1,
            master_arguments: around.server_arguments.clone(),
            chunkserver_arguments: around.server_arguments.clone(),
            ..CellPlan::new(around.program.clone(), directory, count)
        };
        let processes = CellProcesses::start(plan).doing(|| "starting the bench's cell".to_owned());
        Ok(Self { processes: processes? })
    }

    /// One run of a load against it.
    pub(crate) fn run(&self, load: &Load) -> Result<LoadFigures, BenchError> {
        let mut all = self.run_together(std::slice::from_ref(load))?;
        Ok(all.pop().expect("one load was run"))
    }

    /// Loads side by side; CPU seconds are told with each, and are all of theirs.
    pub(crate) fn run_together(&self, loads: &[Load]) -> Result<Vec<LoadFigures>, BenchError> {
        let start = |load| RunningLoad::start(load, self.processes.address());
        let mut running = loads.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let master: Vec<u32> = self.processes.masters[0].pid().into_iter().collect();
        let mut all = master.clone();
        all.extend(self.processes.chunkservers.iter().filter_map(ServerProcess::pid));
        all.extend(running.iter().flat_map(RunningLoad::pids));
        let before = (cpu::seconds(&all), cpu::seconds(&master));
        running.iter_mut().try_for_each(RunningLoad::go)?;
        let mut told = Vec::new();
        for one in &mut running {
            told.push(one.figures()?);
        }
        let (every, masters) = (cpu::seconds(&all) - before.0, cpu::seconds(&master) - before.1);
        for one in &mut told {
            (one.cpu_seconds, one.master_cpu_seconds) = (every, masters);
        }
        Ok(told)
    }
}
