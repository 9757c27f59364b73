//! What is asked about subtrees: how much lies below a directory, how much may, and what files are
//! charged (R36).
//!
//! - SQ1: what is answered is of the names as they stand, whatever waits to be added to totals.

use super::apply_quota::QuotaCheck;
use super::names::NameTree;
use super::quotas::Quota;
use super::totals::Totals;
use cairn_protocol::Failure;
use cairn_types::EntryId;
use std::sync::Arc;

/// Of the names as they stand.
#[derive(Clone, Copy, Debug)]
pub struct Subtrees<'a> {
    pub(super) names: &'a NameTree,
}

impl<'a> Subtrees<'a> {
    /// What lies below a directory.
    #[must_use]
    pub fn totals(&self, directory: EntryId) -> Totals {
        self.names.accounts().total(self.names.ways(), directory)
    }

    /// The quota of a directory, with what counts against it.
    #[must_use]
    pub fn quota(&self, directory: EntryId) -> Option<Quota> {
        self.names.accounts().quota(directory)
    }

    /// Whether any directory has a quota.
    #[must_use]
    pub fn have_quotas(&self) -> bool {
        !self.names.accounts().quotas().is_empty()
    }

    /// The directories behind an id that have quotas, by id.
    pub fn quotas_after(&self, id: EntryId) -> impl Iterator<Item = EntryId> + use<'a> {
        self.names.accounts().quotas().after(id)
    }

    /// Which directories above one have quotas, itself first.
    #[must_use]
    pub fn quotas_above(&self, directory: EntryId) -> Arc<[EntryId]> {
        self.names.accounts().quotas_above(self.names.ways(), directory)
    }

    /// The directory that an entry counts in: that which it was deleted from, where it was.
    #[must_use]
    pub fn counts_in(&self, id: EntryId) -> Option<EntryId> {
        self.names.ways().counts_in(id)
    }

    /// Up to where a file is charged though its recorded length may be less.
    #[must_use]
    pub fn charged(&self, file: EntryId) -> Option<u64> {
        self.names.accounts().charged(file)
    }

    /// The files behind an id that are charged further than they are long, by id.
    pub(crate) fn charged_after(&self, file: EntryId) -> impl Iterator<Item = EntryId> + use<'a> {
        self.names.accounts().totals().charged_after(file)
    }

    /// Whether a file may be charged up to there, as far as quotas go.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn check_charge(&self, file: EntryId, end: u64) -> Result<(), Failure> {
        let Some(record) = self.names.entry(file) else { return Ok(()) };
        QuotaCheck(self.names).charge_up_to(file, &record, end).map(|_| ())
    }
}
