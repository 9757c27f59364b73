//! A chunk that no file can have is leased to nobody.

use super::{World, lease};
use cairn_protocol::{ErrorCode, LeasePurpose};

#[test]
fn a_lease_at_an_index_that_no_file_can_have_is_refused_and_changes_nothing() {
    let mut world = World::new(3);
    world.first_chunk();
    let chunks = world.state.chunk_count();
    for purpose in [LeasePurpose::Write, LeasePurpose::Level] {
        world.request(5, lease(purpose, u64::MAX));
        let failure = world.reply(5).expect("answered at once").expect_err("refused");
        assert_eq!(failure.code, ErrorCode::Invalid, "{purpose:?}");
        assert!(world.raises().is_empty(), "{purpose:?}: nobody is asked");
    }
    assert_eq!(world.state.chunk_count(), chunks);
}
