//! Memory that clients make the server hold, in sum: requests that are not whole, queued commands, watched names, replies that
//! are not taken.
//!
//! Each of these has a limit for one connection; thousands of connections at theirs would be more than a machine has. So what a
//! connection holds beyond [`UNCOUNTED`], or [`UNCOUNTED_OF_GUESTS`] before a login, is counted, and when all of it is more than `client-memory`, somebody goes, as with
//! `maxmemory-clients` of Redis: of the tenant and address that hold most together, the connection that holds most. Who came
//! last is not cut for what others hold, and opening many connections helps nobody.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::desk::{Client, neighbourhood};

/// What a connection may hold without being counted: nearly all never hold more.
pub const UNCOUNTED: usize = 16 << 10;
/// The same before a login. A request of a guest has 16 KB at most, so that nothing of theirs would be counted, and 6,000
/// of them took 110 MB; all that a login needs is within this.
pub const UNCOUNTED_OF_GUESTS: usize = 2 << 10;

/// Whose connections count together: of one namespace, and from one address.
type Kin = (Option<String>, Option<IpAddr>);

/// Who holds how much.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    used: u64,
    holders: HashMap<u64, Holder>,
    families: HashMap<Kin, Family>,
}

#[derive(Debug)]
struct Holder {
    client: Client,
    bytes: u64,
    kin: Kin,
}

#[derive(Debug, Default)]
struct Family {
    bytes: u64,
    /// By bytes, then by the client's number.
    members: BTreeSet<(u64, u64)>,
}

impl Ledger {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client holds so much from now on. Who has to go because of that, which may be itself, with what each held.
    #[must_use]
    pub fn hold(&self, client: &Client, bytes: u64, most: u64) -> Vec<(Client, u64)> {
        let mut books = self.books();
        let before = books.take(client.id).map(|holder| (holder.bytes, holder.kin));
        let held = before.as_ref().map_or(0, |(held, _)| *held);
        if bytes > 0 {
            let kin = before.map_or_else(|| kin(client), |(_, kin)| kin);
            books.put(Holder { client: client.clone(), bytes, kin });
        }
        let mut gone = Vec::new();
        // One that lets go of something makes room, whatever the limit is by now.
        while bytes > held && books.used > most {
            let heaviest = books.families.values().max_by_key(|family| family.bytes);
            let Some(largest) = heaviest.and_then(|family| family.members.last()).map(|&(_, id)| id) else { break };
            let Some(holder) = books.take(largest) else { break };
            let is_asking = holder.client == *client;
            gone.push((holder.client, holder.bytes));
            if is_asking {
                break;
            }
        }
        gone
    }

    /// A client holds nothing any more.
    pub fn release(&self, client: &Client) {
        self.books().take(client.id);
    }

    /// What all of them hold.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.books().used
    }
}

impl Books {
    fn put(&mut self, holder: Holder) {
        self.used += holder.bytes;
        let family = self.families.entry(holder.kin.clone()).or_default();
        family.bytes += holder.bytes;
        family.members.insert((holder.bytes, holder.client.id));
        self.holders.insert(holder.client.id, holder);
    }

    fn take(&mut self, id: u64) -> Option<Holder> {
        let holder = self.holders.remove(&id)?;
        self.used -= holder.bytes;
        if let Some(family) = self.families.get_mut(&holder.kin) {
            family.bytes -= holder.bytes;
            family.members.remove(&(holder.bytes, id));
            if family.members.is_empty() {
                self.families.remove(&holder.kin);
            }
        }
        Some(holder)
    }
}

fn kin(client: &Client) -> Kin {
    let namespace = client.card().user.as_ref().and_then(|user| user.namespace.clone());
    (namespace, neighbourhood(client.address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::desk::Desk;

    fn client(desk: &Desk, last: u8) -> Client {
        desk.welcome(Some(([192, 0, 2, last], 1000).into()))
    }

    fn ids(gone: &[(Client, u64)]) -> Vec<(u64, u64)> {
        gone.iter().map(|(client, held)| (client.id, *held)).collect()
    }

    #[test]
    fn of_the_address_that_holds_most_the_largest_goes() {
        let desk = Desk::new(1, None, String::new(), Vec::new());
        let ledger = Ledger::default();
        let swarm: Vec<Client> = (0..4).map(|_| client(&desk, 1)).collect();
        for (at, one) in swarm.iter().enumerate() {
            assert!(ledger.hold(one, 20 + at as u64, 100).is_empty());
        }
        assert_eq!(ledger.used(), 86);
        // The honest one holds more than any of the others, and less than they together.
        let honest = client(&desk, 2);
        assert_eq!(ids(&ledger.hold(&honest, 40, 100)), [(swarm[3].id, 23), (swarm[2].id, 22)]);
        assert_eq!(ledger.used(), 81);
        assert!(ledger.hold(&honest, 59, 100).is_empty());
        // Now it holds most: it is the one that goes, and nobody else.
        assert_eq!(ids(&ledger.hold(&honest, 60, 100)), [(honest.id, 60)]);
        assert_eq!(ledger.used(), 41);
    }

    #[test]
    fn who_lets_go_is_left_alone_and_nothing_is_counted_twice() {
        let desk = Desk::new(1, None, String::new(), Vec::new());
        let ledger = Ledger::default();
        let (one, two) = (client(&desk, 1), client(&desk, 2));
        assert!(ledger.hold(&one, 50, 100).is_empty() && ledger.hold(&two, 50, 100).is_empty());
        assert!(ledger.hold(&one, 40, 10).is_empty(), "less than before, though the limit was lowered");
        assert!(ledger.hold(&one, 40, 10).is_empty());
        assert_eq!(ids(&ledger.hold(&one, 41, 10)), [(two.id, 50), (one.id, 41)]);
        assert!(ledger.hold(&two, 7, 10).is_empty());
        ledger.release(&two);
        ledger.release(&two);
        let books = ledger.books();
        assert!(books.used == 0 && books.holders.is_empty() && books.families.is_empty());
    }
}
