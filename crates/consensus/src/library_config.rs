//! How the library is set for a member of a group.

use crate::election_clock::PATIENCE_END;
use crate::ticks::ELECTION_TICKS;
use cairn_types::{LogIndex, ServerId};
use raft::prelude::Config;

/// About the most bytes of records in one message.
const ENTRIES_SIZE: u64 = 256 << 10;
/// Messages with records that may be on their way to one member.
const IN_FLIGHT: usize = 64;

/// For this member, whose state stands at that record.
pub(crate) fn library_config(me: ServerId, applied: LogIndex) -> Config {
    Config {
        id: me.get(),
        election_tick: ELECTION_TICKS,
        // The member's own rounds of heartbeats come with every tick.
        heartbeat_tick: ELECTION_TICKS - 1,
        min_election_tick: ELECTION_TICKS,
        max_election_tick: PATIENCE_END,
        applied: applied.get(),
        max_size_per_msg: ENTRIES_SIZE,
        max_inflight_msgs: IN_FLIGHT,
        check_quorum: true,
        pre_vote: true,
        batch_append: true,
        ..Config::default()
    }
}
