//! What a server may take of its machine, as the command line or the settings file says.
//!
//! - LI1: a bound that is too low to work with is refused at the start, with the least that works.

use crate::cli_error::Cause;
use crate::exit_codes::Exit;
use crate::output::size_text;
use crate::settings::LimitSection;
use cairn_env_os::LaunchLimits;
use clap::Args;
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// Arguments of every server that stands alone.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LimitArguments {
    /// Memory that all its peers may make it hold [default: 256M, of a chunkserver 512M]
    #[arg(long, env = "CAIRN_MEMORY", value_name = "SIZE")]
    memory: Option<MemorySize>,
    /// Open files and connections [default: as many as the system lets it, and it can use]
    #[arg(long, env = "CAIRN_DESCRIPTORS", value_name = "COUNT")]
    descriptors: Option<usize>,
}

/// What a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerLimits {
    /// Bytes that those who are connected may make it hold.
    pub(crate) peers: usize,
    /// Bytes of pushed data that wait for their mutations.
    pub(crate) pushes: u64,
    /// Open files and connections, where somebody chose.
    pub(crate) descriptors: Option<usize>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let peers = LaunchLimits::default().memory_max;
        Self { peers, pushes: peers as u64, descriptors: None }
    }
}

impl LimitArguments {
    /// Flags and environment before the settings file, before what is built in.
    fn chosen(self, file: LimitSection) -> (Option<usize>, Option<usize>) {
        let memory = self.memory.or(file.memory).map(|size| size.0);
        (memory, self.descriptors.or(file.descriptors))
    }

    /// A master's.
    ///
    /// # Errors
    /// LI1.
    pub(crate) fn of_master(self, file: LimitSection) -> Result<ServerLimits, Cause> {
        let (memory, descriptors) = self.chosen(file);
        let peers = at_least(memory, "a master", LaunchLimits::MEMORY_MIN)?;
        let usual = ServerLimits::default();
        Ok(ServerLimits { peers: peers.unwrap_or(usual.peers), descriptors, ..usual })
    }

    /// A chunkserver's: half of it for pushed data.
    ///
    /// # Errors
    /// LI1.
    pub(crate) fn of_chunkserver(self, file: LimitSection) -> Result<ServerLimits, Cause> {
        let (memory, descriptors) = self.chosen(file);
        let memory = at_least(memory, "a chunkserver", 2 * LaunchLimits::MEMORY_MIN)?;
        let usual = ServerLimits::default();
        let (peers, pushes) = match memory {
            Some(all) => (all / 2, (all - all / 2) as u64),
            None => (usual.peers, usual.pushes),
        };
        Ok(ServerLimits { peers, pushes, descriptors })
    }
}

/// The chosen memory, if it is enough (LI1).
fn at_least(chosen: Option<usize>, who: &str, least: usize) -> Result<Option<usize>, Cause> {
    match chosen {
        Some(size) if size < least => {
            let (size, least) = (size_text(size as u64, true), size_text(least as u64, true));
            let why = format!("{size} of memory is too little for {who}");
            Err(Cause::new(Exit::Usage, why, format!("--memory takes {least} and more")))
        }
        chosen => Ok(chosen),
    }
}

/// Bytes, as people write them: `512M`, `1G`, `2T`, `300000000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySize(usize);

impl MemorySize {
    pub(crate) fn bytes(self) -> u64 {
        self.0 as u64
    }
}

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
        let unit: usize = match &text[digits.len()..] {
            "" => 1,
            "K" | "k" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            "T" => 1 << 40,
            "P" => 1 << 50,
            unit => return Err(format!("'{unit}' is no unit: K, M, G, T or P")),
        };
        let count: usize = digits.parse().map_err(|_| format!("'{text}' is no size"))?;
        count.checked_mul(unit).map(Self).ok_or_else(|| format!("'{text}' is too large"))
    }
}

impl<'de> Deserialize<'de> for MemorySize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitArguments, MemorySize, ServerLimits};
    use crate::settings::LimitSection;

    #[test]
    fn sizes_are_written_as_people_write_them() {
        let size = |text: &str| text.parse::<MemorySize>().map(|size| size.0);
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("1G"), Ok(1 << 30));
        assert_eq!(size("64k"), Ok(64 << 10));
        assert_eq!(size("2T"), Ok(2 << 40));
        assert_eq!(size("3P"), Ok(3 << 50));
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("300000000"), Ok(300_000_000));
        for bad in ["", "M", "1E", "1TiB", "10X", "1.5G", "-1", "1 M", "99999999999G", "99999999P"]
        {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_chosen_counts_before_the_file_and_too_little_is_refused() {
        let arguments = |memory: Option<&str>| LimitArguments {
            memory: memory.map(|text| text.parse().expect("a size")),
            descriptors: None,
        };
        let file = LimitSection { memory: "300M".parse().ok(), descriptors: Some(500) };
        let chosen = arguments(Some("1G")).of_chunkserver(file).expect("enough");
        let expected = ServerLimits { peers: 512 << 20, pushes: 512 << 20, descriptors: Some(500) };
        assert_eq!(chosen, expected);
        assert_eq!(arguments(None).of_master(file).map(|it| it.peers).ok(), Some(300 << 20));
        let usual = arguments(None).of_master(LimitSection::default()).expect("as built in");
        assert_eq!(usual, ServerLimits::default());
        let refusal = arguments(Some("100M")).of_chunkserver(file).expect_err("too little");
        assert!(refusal.why.contains("100M"), "{refusal:?}");
        assert!(refusal.advice.contains("192M and more"), "{refusal:?}");
    }
}
