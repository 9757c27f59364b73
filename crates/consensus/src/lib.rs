//! The Raft library behind our own words: propose, durable, committed
