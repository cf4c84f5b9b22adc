//! Logins that wait to be checked: one at a time, by turns of the addresses they come from.
//!
//! A check takes 25 ms, so somebody who sends wrong passwords over many connections makes others wait. They wait for one
//! check of each address, not for all of one. An IPv6 customer has 2^64 addresses, which are one here. Those whose password was proven before never come here.
//! When too many wait, the last one of the address of which most do is given up, so a few addresses cannot keep all others out.

use std::net::IpAddr;

use super::turns::Turns;

/// How many may wait: of all addresses, and of one. A connection has at most one.
const MOST: usize = 4_096;
const MOST_OF_ONE: usize = 1_024;

/// What waits, by address.
#[derive(Debug)]
pub struct Logins<T>(Turns<Option<IpAddr>, T>);

impl<T> Default for Logins<T> {
    fn default() -> Self {
        Self(Turns::default())
    }
}

impl<T> Logins<T> {
    /// Lets one wait. If too many do, one is given up: this one, or one of those of whom more wait.
    pub fn push(&mut self, from: Option<IpAddr>, login: T) -> Result<(), T> {
        if self.0.of(&from) >= MOST_OF_ONE {
            return Err(login);
        }
        let mut given_up = None;
        if self.0.len() >= MOST {
            let longest = self.0.longest().filter(|longest| self.0.of(longest) > self.0.of(&from) + 1).copied();
            given_up = longest.and_then(|longest| self.0.pop_last(&longest));
            if given_up.is_none() {
                return Err(login);
            }
        }
        self.0.push(from, login);
        given_up.map_or(Ok(()), Err)
    }

    /// The next one: of the address after the last one's.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop(|_| true)
    }

    /// Lets go of all of them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn addresses_take_turns() {
        let mut logins = Logins::default();
        for number in 0..100 {
            logins.push(from(1), (1, number)).unwrap();
        }
        logins.push(from(7), (7, 0)).unwrap();
        logins.push(from(4), (4, 0)).unwrap();
        logins.push(from(4), (4, 1)).unwrap();
        logins.push(None, (0, 0)).unwrap();
        let order: Vec<(u8, u8)> = std::iter::from_fn(|| logins.pop()).collect();
        assert_eq!(order[..7], [(0, 0), (1, 0), (4, 0), (7, 0), (1, 1), (4, 1), (1, 2)]);
        assert_eq!((order.len(), order[103]), (104, (1, 99)));
        assert!(logins.pop().is_none() && logins.0.is_empty());
    }

    #[test]
    fn too_many_are_given_back() {
        let mut logins = Logins::default();
        let taken =
            |logins: &mut Logins<u32>, last: u8| (0..2_000).filter(|&n| logins.push(from(last), n).is_ok()).count();
        assert_eq!([1, 2, 3, 4].map(|last| taken(&mut logins, last)), [1_024, 1_024, 1_024, 1_024]);
        assert_eq!(logins.0.len(), 4_096);
        logins.clear();
        assert!(logins.pop().is_none());
    }

    #[test]
    fn a_few_addresses_do_not_keep_the_others_out() {
        let mut logins = Logins::default();
        for last in 1..=4 {
            (0..1_024).for_each(|number| logins.push(from(last), (last, number)).unwrap());
        }
        // Somebody else comes: the last one of those who brought most goes.
        assert_eq!(logins.push(from(9), (9, 0)), Err((4, 1_023)));
        assert_eq!(logins.push(from(8), (8, 0)), Err((3, 1_023)));
        assert_eq!((logins.0.len(), logins.0.of(&from(9)), logins.0.of(&from(4))), (4_096, 1, 1_023));
        // Those who brought most get no more by it.
        assert_eq!(logins.push(from(1), (1, 2_000)), Err((1, 2_000)));
        assert_eq!(logins.push(from(4), (4, 2_000)), Err((4, 2_000)));
        let order: Vec<u8> = (0..6).filter_map(|_| logins.pop()).map(|(last, _)| last).collect();
        assert_eq!(order, [1, 2, 3, 4, 8, 9]);
    }
}
