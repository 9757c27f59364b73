//! A person's word on a whole file (R28): some of its chunks at a time; what is refused at once.

use super::{FILE, World};
use crate::record::OpenChunk;
use cairn_protocol::{ErrorCode, Recover, RecoverAnswer, Response};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, Term};

#[test]
fn a_word_on_a_large_file_looks_at_some_of_its_chunks_at_a_time() {
    let mut world = World::new(3);
    for number in 0..1200 {
        let (index, handle) =
            (ChunkIndex::new(number), ChunkHandle::of(Term::new(1), 100 + number));
        let version = ChunkVersion::of(Term::new(1), 1);
        let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
        world.apply(OpenChunk { set_size: 3, ..open });
    }
    world.pass(10_000, &[1, 2, 3]);
    let (mut from, mut looks, mut refused) = (ChunkIndex::default(), vec![], 0);
    loop {
        world.request(7, Recover { subject: "/f".into(), from, ..Recover::default() });
        let Some(Ok(Response::Recover(answer))) = world.reply(7) else { panic!("it is told") };
        let RecoverAnswer { chosen, refused: some, resume } = answer;
        assert!(chosen.is_empty(), "nobody has any of it");
        refused += some.len();
        let Some(resume) = resume else { break };
        looks.push(resume.get());
        from = resume;
    }
    assert_eq!((looks, refused), (vec![512, 1024], 3 * 64), "a step is bounded");
}

#[test]
fn a_directory_and_a_chunk_that_nobody_knows_are_refused_for_good() {
    let mut world = World::new(3);
    for (subject, code) in [("/", ErrorCode::IsADirectory), ("9-99", ErrorCode::NotFound)] {
        world.request(7, Recover { subject: subject.into(), ..Recover::default() });
        assert_eq!(world.code(7), Some(code), "{subject}");
    }
}

#[test]
fn whoever_held_it_is_to_be_started_from_the_moment_that_all_are_dead() {
    let (mut world, grant, all) = World::settled(3);
    world.pass(10_000, &all);
    for buried in [false, true] {
        if buried {
            world.pass(250, &[]);
        } else {
            // No time has passed for the master's own work.
            world.millis += 10_000;
        }
        world.request(7, Recover { subject: grant.handle.short(), ..Recover::default() });
        let Some(Err(failure)) = world.reply(7) else { panic!("nobody is there") };
        let line = "start one of the servers that held it";
        assert!(failure.message.contains(line), "buried: {buried}: {}", failure.message);
    }
}
