//! How the masters are asked: which of them, by one question for many, and never by so many
//! mutations of names that they forget the oldest.

pub(crate) mod joined_opens;
pub(crate) mod lookup;
pub(crate) mod mutation_window;
pub(crate) mod primary_watch;
pub(crate) mod shadow_choice;
pub(crate) mod shared_lookups;
