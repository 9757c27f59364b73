//! Whose directory this is; docs/formats/identity.md.

use crate::{FormatError, sealed};
use cairn_types::CellId;

/// Bytes of an identity file.
pub const IDENTITY_SIZE: usize = 64;

const MAGIC: [u8; 8] = *b"CAIRNIDY";
const VERSION: u32 = 1;

/// What a directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityKind {
    /// A chunkserver's chunks; the id is a server id.
    Chunkserver,
    /// A master's operation log; the id is a group member's.
    Master,
    /// A backup of a cell's metadata, which no server starts on; the id is zero.
    Backup,
}

/// Whose directory this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What it is for.
    pub kind: IdentityKind,
    /// Which cell's.
    pub cell: CellId,
    /// Which server's or member's.
    pub id: u64,
    /// Of a master's: a log has been begun in it. Where there is none any more, it is lost, and not
    /// yet to come.
    pub begun: bool,
}

impl Identity {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind: u32 = match self.kind {
            IdentityKind::Chunkserver => 1,
            IdentityKind::Master => 2,
            IdentityKind::Backup => 3,
        };
        let mut out = sealed::begin(MAGIC, VERSION);
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&self.cell.get().to_le_bytes());
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&u32::from(self.begun).to_le_bytes());
        sealed::seal(out, IDENTITY_SIZE)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let mut fields = sealed::open(file, IDENTITY_SIZE, MAGIC, VERSION)?;
        let kind = match fields.u32()? {
            1 => IdentityKind::Chunkserver,
            2 => IdentityKind::Master,
            3 => IdentityKind::Backup,
            _ => return Err(FormatError::Malformed),
        };
        let (cell, id) = (CellId::new(fields.u128()?), fields.u64()?);
        Ok(Self { kind, cell, id, begun: fields.u32()? != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::{Identity, IdentityKind};
    use crate::FormatError;
    use cairn_types::CellId;
    use proptest::prelude::{any, proptest};

    #[test]
    fn an_identity_comes_back_as_it_went() {
        for kind in [IdentityKind::Chunkserver, IdentityKind::Master, IdentityKind::Backup] {
            for begun in [false, true] {
                let identity = Identity { kind, cell: CellId::new(1 << 100), id: 12, begun };
                assert_eq!(Identity::decode(&identity.encode()), Ok(identity));
            }
        }
    }

    #[test]
    fn a_later_version_is_refused_with_both_numbers() {
        let identity =
            Identity { kind: IdentityKind::Master, cell: CellId::new(1), id: 1, begun: false };
        let mut raw = identity.encode();
        raw[8] = 2;
        let checksum = cairn_types::crc32c(&raw[..60]);
        raw[60..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Identity::decode(&raw), Err(FormatError::Version { found: 2, newest: 1 }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Identity::decode(&raw);
        }
    }
}
