//! The library's messages as our own, and back: no byte of the library's encoding meets the net.

use crate::consensus_error::ConsensusError;
use crate::entries::{change_of, data_of, to_entry};
use crate::member_log::conf_state;
use cairn_protocol::{ConsensusEntry, ConsensusKind, ConsensusMessage, OfferedCheckpoint};
use cairn_types::{LogIndex, ServerId, Term};
use raft::CAMPAIGN_TRANSFER;
use raft::prelude::{Entry, Message, MessageType, Snapshot};

/// Bytes of records in one message; a record may have more by itself.
const MESSAGE_SIZE: usize = 512 << 10;

fn kind_of(message: &Message) -> Option<ConsensusKind> {
    Some(match message.msg_type {
        MessageType::MsgHeartbeat => ConsensusKind::Heartbeat,
        MessageType::MsgHeartbeatResponse => ConsensusKind::HeartbeatAnswer,
        MessageType::MsgAppend => ConsensusKind::Append,
        MessageType::MsgAppendResponse => ConsensusKind::AppendAnswer,
        MessageType::MsgRequestPreVote => ConsensusKind::AskPreVote,
        MessageType::MsgRequestPreVoteResponse => ConsensusKind::PreVote,
        MessageType::MsgRequestVote => ConsensusKind::AskVote,
        MessageType::MsgRequestVoteResponse => ConsensusKind::Vote,
        MessageType::MsgTimeoutNow => ConsensusKind::TakeOver,
        MessageType::MsgSnapshot => ConsensusKind::OfferCheckpoint,
        _ => return None,
    })
}

fn library_kind(kind: ConsensusKind) -> MessageType {
    match kind {
        ConsensusKind::Heartbeat => MessageType::MsgHeartbeat,
        ConsensusKind::HeartbeatAnswer => MessageType::MsgHeartbeatResponse,
        ConsensusKind::Append => MessageType::MsgAppend,
        ConsensusKind::AppendAnswer => MessageType::MsgAppendResponse,
        ConsensusKind::AskPreVote => MessageType::MsgRequestPreVote,
        ConsensusKind::PreVote => MessageType::MsgRequestPreVoteResponse,
        ConsensusKind::AskVote => MessageType::MsgRequestVote,
        ConsensusKind::Vote => MessageType::MsgRequestVoteResponse,
        ConsensusKind::TakeOver => MessageType::MsgTimeoutNow,
        ConsensusKind::OfferCheckpoint => MessageType::MsgSnapshot,
    }
}

pub(crate) fn is_ask_for_vote(kind: ConsensusKind) -> bool {
    matches!(kind, ConsensusKind::AskVote | ConsensusKind::AskPreVote)
}

/// A round of heartbeats as the library carries it.
pub(crate) fn round_context(round: u64) -> Vec<u8> {
    if round == 0 { Vec::new() } else { round.to_le_bytes().to_vec() }
}

/// The round that a context names; zero: none.
pub(crate) fn round_of(context: &[u8]) -> u64 {
    context.try_into().map_or(0, u64::from_le_bytes)
}

/// Our messages, one mostly: more where the library has gathered more records than a message
/// carries, none where it wants to say what our members do not say to each other.
pub(crate) fn from_library(message: Message) -> Vec<ConsensusMessage> {
    let Some(message) = whole(message) else { return Vec::new() };
    let (mut pieces, mut size) = (Vec::new(), 0);
    let mut piece = ConsensusMessage { entries: Vec::new(), ..message.clone() };
    for entry in message.entries {
        size += entry.data.len();
        if size > MESSAGE_SIZE && !piece.entries.is_empty() {
            let last = piece.entries.last().expect("it has entries");
            let (index, log_term) = (last.index, last.term);
            let next = ConsensusMessage { index, log_term, entries: Vec::new(), ..piece.clone() };
            pieces.push(std::mem::replace(&mut piece, next));
            size = entry.data.len();
        }
        piece.entries.push(entry);
    }
    pieces.push(piece);
    pieces
}

fn whole(mut message: Message) -> Option<ConsensusMessage> {
    let kind = kind_of(&message)?;
    let entries = message.take_entries().into_iter().map(|entry: Entry| ConsensusEntry {
        index: LogIndex::new(entry.index),
        term: Term::new(entry.term),
        data: data_of(&entry),
        change: change_of(&entry),
    });
    let checkpoint = (kind == ConsensusKind::OfferCheckpoint).then(|| {
        let metadata = message.get_snapshot().get_metadata();
        // Who the members are, whoever offers it knows better than the library.
        let (index, term) = (LogIndex::new(metadata.index), Term::new(metadata.term));
        OfferedCheckpoint { index, term, ..OfferedCheckpoint::default() }
    });
    Some(ConsensusMessage {
        checkpoint,
        kind,
        from: ServerId::new(message.from),
        to: ServerId::new(message.to),
        term: Term::new(message.term),
        index: LogIndex::new(message.index),
        log_term: Term::new(message.log_term),
        entries: entries.collect(),
        committed: LogIndex::new(message.commit),
        committed_term: Term::new(message.commit_term),
        rejects: message.reject,
        hint: LogIndex::new(message.reject_hint),
        round: if is_ask_for_vote(kind) { 0 } else { round_of(&message.context) },
        handed_over: is_ask_for_vote(kind) && message.context == CAMPAIGN_TRANSFER,
    })
}

/// A heartbeat that commits more than there is, up to `last`, commits nothing: the library would
/// end the process for it. So says who lies, and whoever counts on what this member had
/// acknowledged, and its disk has lost since: of what stands there now nobody has compared
/// anything.
pub(crate) fn within(message: ConsensusMessage, last: LogIndex) -> ConsensusMessage {
    let is_heartbeat = message.kind == ConsensusKind::Heartbeat;
    if is_heartbeat && message.committed > last {
        return ConsensusMessage { committed: LogIndex::default(), ..message };
    }
    message
}

/// The library's message, where ours can be one at all: the library takes much for granted, and
/// ends the process where it is not so.
///
/// # Errors
/// [`ConsensusError::Malformed`].
pub(crate) fn to_library(message: ConsensusMessage) -> Result<Message, ConsensusError> {
    let mut next = message.index;
    let mut entries = Vec::with_capacity(message.entries.len());
    for entry in message.entries {
        let is_next = next.get() < u64::MAX && entry.index == next.next();
        if !is_next || entry.term > message.term || entry.term == Term::default() {
            return Err(ConsensusError::Malformed("entries are not consecutive"));
        }
        if entry.change.is_some() && !entry.data.is_empty() {
            return Err(ConsensusError::Malformed("a change of members with a record in it"));
        }
        next = entry.index;
        entries.push(to_entry(entry.index, entry.term, entry.data, entry.change.as_ref()));
    }
    if message.term == Term::default() || message.from == ServerId::default() {
        return Err(ConsensusError::Malformed("a message of no term, or of nobody"));
    }
    // It would be kept, and no later one has room for numbers.
    if message.term > Term::LAST {
        return Err(ConsensusError::Malformed("a term behind the last one"));
    }
    if !entries.is_empty() && message.kind != ConsensusKind::Append {
        return Err(ConsensusError::Malformed("entries where none belong"));
    }
    let is_heartbeat =
        matches!(message.kind, ConsensusKind::Heartbeat | ConsensusKind::HeartbeatAnswer);
    let context = if is_ask_for_vote(message.kind) && message.handed_over {
        CAMPAIGN_TRANSFER.to_vec()
    } else if is_heartbeat {
        round_context(message.round)
    } else {
        Vec::new()
    };
    let is_offer = message.kind == ConsensusKind::OfferCheckpoint;
    if is_offer != message.checkpoint.is_some() {
        return Err(ConsensusError::Malformed("a checkpoint where none belongs, or none"));
    }
    let snapshot = message.checkpoint.map(|offered| {
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (offered.index.get(), offered.term.get());
        metadata.set_conf_state(conf_state(&offered.members));
        snapshot
    });
    Ok(Message {
        snapshot: snapshot.into(),
        msg_type: library_kind(message.kind),
        from: message.from.get(),
        to: message.to.get(),
        term: message.term.get(),
        index: message.index.get(),
        log_term: message.log_term.get(),
        entries: entries.into(),
        commit: message.committed.get(),
        commit_term: message.committed_term.get(),
        reject: message.rejects,
        reject_hint: message.hint.get(),
        context: context.into(),
        ..Message::default()
    })
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_SIZE, from_library, is_ask_for_vote, to_library};
    use cairn_protocol::{ConsensusEntry, ConsensusKind, ConsensusMessage, OfferedCheckpoint};
    use cairn_types::sample::Sample;
    use cairn_types::{LogIndex, Random, ServerId, Term};

    #[test]
    fn a_message_comes_back_as_it_went() {
        let random = &mut Random::new(1);
        for _ in 0..2_000 {
            let mut message = ConsensusMessage::sample(random);
            let (term, index) = (1 + random.below(1 << 20), random.below(1 << 40));
            (message.term, message.index) = (Term::new(term), LogIndex::new(index));
            message.from = ServerId::new(1 + random.below(9));
            let append = message.kind == ConsensusKind::Append;
            message.entries.truncate(if append { 9 } else { 0 });
            for (at, entry) in (1..).zip(&mut message.entries) {
                if entry.change.is_some() {
                    entry.data = Default::default();
                }
                (entry.index, entry.term) = (LogIndex::new(index + at), Term::new(term));
            }
            let heartbeat = [ConsensusKind::Heartbeat, ConsensusKind::HeartbeatAnswer];
            message.round *= u64::from(heartbeat.contains(&message.kind));
            message.handed_over &= is_ask_for_vote(message.kind);
            message.checkpoint = (message.kind == ConsensusKind::OfferCheckpoint).then(|| {
                let term = Term::new(term);
                OfferedCheckpoint { index: LogIndex::new(index), term, ..Default::default() }
            });
            let there = to_library(message.clone()).expect("a good one");
            assert_eq!(from_library(there), [message]);
        }
    }

    #[test]
    fn more_records_than_a_message_carries_go_in_several_that_follow_each_other() {
        let entry = |index: u64, size: usize| ConsensusEntry {
            index: LogIndex::new(index),
            term: Term::new(3),
            data: vec![7; size].into(),
            ..ConsensusEntry::default()
        };
        let sizes = [1, MESSAGE_SIZE, 5, 6, 2 * MESSAGE_SIZE, 1];
        let entries: Vec<ConsensusEntry> =
            (8..).zip(sizes).map(|(index, size)| entry(index, size)).collect();
        let whole = ConsensusMessage {
            kind: ConsensusKind::Append,
            from: ServerId::new(1),
            term: Term::new(4),
            index: LogIndex::new(7),
            log_term: Term::new(2),
            entries: entries.clone(),
            ..ConsensusMessage::default()
        };
        let pieces = from_library(to_library(whole).expect("a good one"));
        let counts: Vec<usize> = pieces.iter().map(|piece| piece.entries.len()).collect();
        assert_eq!(counts, [1, 1, 2, 1, 1]);
        let places: Vec<(u64, u64)> =
            pieces.iter().map(|piece| (piece.index.get(), piece.log_term.get())).collect();
        assert_eq!(places, [(7, 2), (8, 3), (9, 3), (11, 3), (12, 3)]);
        let all: Vec<ConsensusEntry> = pieces.into_iter().flat_map(|it| it.entries).collect();
        assert_eq!(all, entries);
    }

    #[test]
    fn what_the_library_would_end_the_process_for_is_refused_before_it() {
        let mut sound = ConsensusMessage {
            kind: ConsensusKind::Append,
            from: ServerId::new(1),
            term: Term::new(3),
            index: LogIndex::new(7),
            ..ConsensusMessage::default()
        };
        let (index, term) = (LogIndex::new(8), Term::new(3));
        sound.entries = vec![ConsensusEntry { index, term, ..ConsensusEntry::default() }];
        assert!(to_library(sound.clone()).is_ok());
        let refused = |damage: fn(&mut ConsensusMessage)| {
            let mut message = sound.clone();
            damage(&mut message);
            to_library(message).is_err()
        };
        assert!(refused(|message| message.entries[0].index = LogIndex::new(9)));
        assert!(refused(|message| message.entries[0].term = Term::new(4)));
        assert!(refused(|message| message.index = LogIndex::new(u64::MAX)));
        assert!(refused(|message| message.kind = ConsensusKind::Vote));
        assert!(refused(|message| message.term = Term::default()));
        assert!(refused(|message| message.from = ServerId::default()));
        // No numbers are left for what came behind it.
        assert!(refused(|message| message.term = Term::new(Term::LAST.get() + 1)));
    }
}
