//! Events for whoever looks for a reason: a switch of the driver.

use super::MasterCore;

impl MasterCore {
    /// Somebody looks for changes of state: they are told from now on.
    pub fn tell_debug(&mut self) {
        self.out.tell_debug();
    }
}
