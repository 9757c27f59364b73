//! Who asks: what callers say of themselves when they connect, by connection.
//!
//! - CA1: one that says nothing is the superuser: so are servers, and builds before there were
//!   identities. One whose word cannot be read is nobody.

use cairn_env::{Caller, ConnectionId};
use cairn_types::Identity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who is connected.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    by_connection: BTreeMap<ConnectionId, Arc<Identity>>,
    superuser: Arc<Identity>,
}

impl Callers {
    /// Who dialled says who it is.
    pub fn identified(&mut self, connection: ConnectionId, credentials: &[u8]) {
        self.by_connection.insert(connection, Arc::new(Identity::told(credentials)));
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, connection: ConnectionId) {
        self.by_connection.remove(&connection);
    }

    /// Who asks by it (CA1).
    #[must_use]
    pub fn who(&self, caller: Caller) -> &Arc<Identity> {
        self.by_connection.get(&caller.connection).unwrap_or(&self.superuser)
    }
}

#[cfg(test)]
mod tests {
    use super::Callers;
    use cairn_env::{Caller, ConnectionId};
    use cairn_types::wire::Message;
    use cairn_types::{GROUPS_MAX, Identity};

    #[test]
    fn who_says_nothing_is_the_superuser_and_who_cannot_be_understood_is_nobody() {
        let mut callers = Callers::default();
        let by = |id| Caller { connection: ConnectionId(id), ..Caller::default() };
        let user = Identity { uid: 1000, gid: 100, groups: vec![0, 7] };
        callers.identified(ConnectionId(1), &user.to_bytes());
        callers.identified(ConnectionId(2), &[0xff, 0xff]);
        let many = Identity { groups: vec![1; GROUPS_MAX + 1], ..Identity::default() };
        callers.identified(ConnectionId(3), &many.to_bytes());
        assert_eq!(**callers.who(by(1)), user);
        assert_eq!(**callers.who(by(2)), Identity::nobody());
        assert_eq!(**callers.who(by(3)), Identity::nobody());
        assert!(callers.who(by(4)).is_superuser());
        callers.disconnected(ConnectionId(1));
        assert!(callers.who(by(1)).is_superuser(), "no request comes by it any more");
    }
}
