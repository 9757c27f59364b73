//! Drills of what reviews and chaos tests found (issue 15), a file for each finding.

mod append_beside_a_lone_replica;
mod copies_behind;
mod cut_off_from_peers;
mod hung_servers;
mod late_member;
mod left_out_and_serving;
mod length_after_restart;
mod mark_before_close;
mod refused_mark;
mod restored_master;
mod rot_inside_an_answer;
mod rotten_sidecar;
mod sync_of_lost_bytes;

use super::drill::Drill;

pub(super) fn drills() -> Vec<Drill> {
    [
        sync_of_lost_bytes::DRILLS,
        mark_before_close::DRILLS,
        copies_behind::DRILLS,
        cut_off_from_peers::DRILLS,
        refused_mark::DRILLS,
        late_member::DRILLS,
        restored_master::DRILLS,
        rot_inside_an_answer::DRILLS,
        rotten_sidecar::DRILLS,
        length_after_restart::DRILLS,
        append_beside_a_lone_replica::DRILLS,
        left_out_and_serving::DRILLS,
        hung_servers::DRILLS,
    ]
    .concat()
}
