//! Applying changes of the cell's settings: only what fits together can hold.

use crate::applied::{Applied, Changed};
use crate::record::SetCellSettings;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::CellConfig;

/// Changes what is named.
pub(super) fn change_settings(
    config: &mut CellConfig,
    change: &SetCellSettings,
) -> Result<Applied, Failure> {
    let changed = CellConfig {
        clone_rate: change.clone_rate.unwrap_or(config.clone_rate),
        clones_per_server: change.clones_per_server.unwrap_or(config.clones_per_server),
        clones_per_cell: change.clones_per_cell.unwrap_or(config.clones_per_cell),
        settle_rate: change.settle_rate.unwrap_or(config.settle_rate),
        settle_after_ms: change.settle_after_ms.unwrap_or(config.settle_after_ms),
        cursors_kept_ms: change.cursors_kept_ms.unwrap_or(config.cursors_kept_ms),
        ..config.clone()
    };
    match changed.validate() {
        Ok(()) => *config = changed,
        Err(error) => return Err(Failure::refused(ErrorCode::Invalid, error.to_string())),
    }
    Ok(Applied::Changed(Changed::default()))
}
