//! Nearness: which replica to read from, and in which order data travels down a chain (GFS §3.2).

use cairn_types::{Rack, ReplicaAt, ServerId};

/// A number by which equally near servers are told apart, another for each client and chunk so
/// that not all lean on the same one.
fn spread(salt: u64, server: ServerId) -> u64 {
    (salt ^ server.get()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// The replica to read from: the nearest to `rack` that `fit` accepts.
pub(crate) fn nearest<'a>(
    rack: &Rack,
    salt: u64,
    replicas: &'a [ReplicaAt],
    fit: impl Fn(&ReplicaAt) -> bool,
) -> Option<&'a ReplicaAt> {
    replicas
        .iter()
        .filter(|replica| fit(replica))
        .min_by_key(|replica| (rack.distance(&replica.rack), spread(salt, replica.server)))
}

/// The order of a push: the nearest to the client first, then each time the nearest to the last.
pub(crate) fn order(rack: &Rack, salt: u64, mut replicas: Vec<ReplicaAt>) -> Vec<ReplicaAt> {
    let mut chain: Vec<ReplicaAt> = Vec::with_capacity(replicas.len());
    while !replicas.is_empty() {
        let from = chain.last().map_or(rack, |last| &last.rack);
        let next = replicas
            .iter()
            .enumerate()
            .min_by_key(|(_, at)| (from.distance(&at.rack), spread(salt, at.server)))
            .map_or(0, |(place, _)| place);
        chain.push(replicas.swap_remove(next));
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::{nearest, order};
    use cairn_types::{Address, Rack, ReplicaAt, ServerId};

    fn at(server: u64, rack: &str) -> ReplicaAt {
        let address = Address::new(format!("s{server}:1"));
        ReplicaAt { server: ServerId::new(server), address, rack: Rack::new(rack) }
    }

    #[test]
    fn a_chain_starts_near_the_client_and_crosses_between_racks_once() {
        let replicas = vec![at(1, "/d/far"), at(2, "/d/near"), at(3, "/d/far"), at(4, "/d/near")];
        let chain = order(&Rack::new("/d/near"), 7, replicas);
        let racks: Vec<&str> = chain.iter().map(|at| at.rack.as_str()).collect();
        assert_eq!(racks, ["/d/near", "/d/near", "/d/far", "/d/far"]);
    }

    #[test]
    fn the_nearest_fit_replica_is_read_and_equals_are_spread_by_the_salt() {
        let replicas = [at(1, "/a"), at(2, "/b"), at(3, "/b")];
        let pick = |salt, rack: &str, not| {
            nearest(&Rack::new(rack), salt, &replicas, |at| at.server.get() != not)
                .map(|at| at.server.get())
        };
        assert_eq!(pick(0, "/a", 9), Some(1));
        assert_ne!(pick(0, "/a", 1), Some(1));
        let picked: std::collections::BTreeSet<_> =
            (0..20).map(|salt| pick(salt, "/b", 9)).collect();
        assert_eq!(picked, [Some(2), Some(3)].into());
    }

    #[test]
    fn many_clients_read_a_file_of_many_replicas_from_all_of_them_alike() {
        let servers = [911, 57, 3_000_000_007, u64::MAX / 3, 42, 1 << 60].map(|it| at(it, "/r"));
        let mut read = std::collections::BTreeMap::new();
        let mut random = cairn_types::Random::new(5);
        for client in 0..6000 {
            // From the same rack, from another, and from none.
            let rack = Rack::new(["/r", "/q", ""][client % 3]);
            let chosen = nearest(&rack, random.next_u64(), &servers, |_| true);
            *read.entry(chosen.expect("one").server).or_insert(0) += 1;
        }
        assert!(read.len() == 6 && read.values().all(|count| *count > 700), "{read:?}");
    }
}
