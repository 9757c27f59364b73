//! The servers of this process as their HTTP door sees them.

use cairn_chunkserver::ChunkserverGauges;
use cairn_env_os::ProcessMeter;
use cairn_env_os::clock::boot_time;
use cairn_master::{MasterGauges, MasterTold};
use std::sync::Arc;
use std::time::Duration;

/// A shadow master whose primary was not heard of for so long does not know how the cell is.
const SHADOW_SILENCE_MAX: Duration = Duration::from_secs(10);
/// One that lacks more records than this is still catching up.
const SHADOW_LAG_MAX: u64 = 10_000;

/// A server, and where it notes what is told of it.
#[derive(Clone, Debug)]
pub(crate) struct ServerSeen {
    /// Where it listens.
    pub(crate) address: String,
    /// What it takes, and what it was asked.
    pub(crate) meter: Arc<ProcessMeter>,
    /// What it is.
    pub(crate) part: PartSeen,
}

/// What a server is to its cell.
#[derive(Clone, Debug)]
pub(crate) enum PartSeen {
    /// A master.
    Master(Arc<MasterGauges>),
    /// One that waits to be made a member of a group.
    Waiting,
    /// A chunkserver. Its disks are nowhere at hand here: one that stands still would hold up the
    /// only thread that answers.
    Chunkserver(Arc<ChunkserverGauges>),
}

impl ServerSeen {
    /// As it is called.
    pub(crate) fn role(&self) -> &'static str {
        match self.part {
            PartSeen::Master(_) => "master",
            PartSeen::Waiting => "waiting-master",
            PartSeen::Chunkserver(_) => "chunkserver",
        }
    }

    /// Whether it is of use to its cell now; if not, why.
    pub(crate) fn is_ready(&self) -> Result<&'static str, String> {
        match &self.part {
            PartSeen::Waiting => Err("it waits to be made a member of a group".to_owned()),
            PartSeen::Master(gauges) => master_is_ready(&gauges.told(), silence(&gauges.told())),
            PartSeen::Chunkserver(gauges) if gauges.told().is_joined => Ok("joined"),
            PartSeen::Chunkserver(_) => Err("no master has taken it in".to_owned()),
        }
    }
}

/// How long ago a master last heard the one in charge; none: it knows of none.
pub(crate) fn silence(told: &MasterTold) -> Option<Duration> {
    let heard = told.standing.heard;
    let is_known = told.standing.in_charge || heard.as_nanos() > 0;
    let since = || if told.standing.in_charge { boot_time() } else { heard };
    is_known.then(|| boot_time().since(since()))
}

fn master_is_ready(told: &MasterTold, silence: Option<Duration>) -> Result<&'static str, String> {
    let standing = told.standing;
    if standing.in_charge {
        return Ok("in charge");
    }
    let Some(silence) = silence.filter(|it| *it < SHADOW_SILENCE_MAX) else {
        return Err("it has not heard a primary master lately".to_owned());
    };
    let lacks = standing.committed.get().saturating_sub(standing.applied.get());
    if lacks > SHADOW_LAG_MAX {
        return Err(format!("it lacks {lacks} records, as of {} ms ago", silence.as_millis()));
    }
    Ok("shadow")
}

#[cfg(test)]
mod tests {
    use super::master_is_ready;
    use cairn_master::{MasterStanding, MasterTold};
    use cairn_types::LogIndex;
    use std::time::Duration;

    #[test]
    fn a_shadow_is_ready_while_it_hears_a_primary_and_lacks_little() {
        let told = |in_charge, committed| MasterTold {
            standing: MasterStanding {
                in_charge,
                committed: LogIndex::new(committed),
                ..MasterStanding::default()
            },
            ..MasterTold::default()
        };
        let ago = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(master_is_ready(&told(true, 0), None), Ok("in charge"));
        assert_eq!(master_is_ready(&told(false, 10_000), ago(9)), Ok("shadow"));
        assert!(master_is_ready(&told(false, 10_001), ago(0)).is_err());
        assert!(master_is_ready(&told(false, 0), ago(10)).is_err());
        assert!(master_is_ready(&told(false, 0), None).is_err());
    }
}
