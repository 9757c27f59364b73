//! Settings of the cell that can be changed while it runs.

use cairn_types::CellConfig;

cairn_types::message! {
    /// Changes what is named; the rest stays as it is. `CellInfo` tells what holds.
    pub struct ChangeSettings {
        1 => clone_rate: Option<u64>,
        2 => clones_per_server: Option<u32>,
        3 => clones_per_cell: Option<u32>,
        4 => settle_rate: Option<u64>,
        5 => settle_after_ms: Option<u64>,
        6 => cursors_kept_ms: Option<u64>,
    }
}
cairn_types::message! {
    /// Logged: these hold from now on.
    pub struct ChangeSettingsAnswer { 1 => config: Box<CellConfig> }
}
