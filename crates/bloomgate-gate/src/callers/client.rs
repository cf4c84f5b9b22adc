//! Who asks: an address, or a name that a proxy gives. Seventeen bytes, whatever was sent.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// A client, as caps count it.
///
/// Addresses of IPv6 are one client for each /64, which is what a provider gives to one customer: whoever has one has
/// 2^64 addresses. Of a name only a hash is kept, under keys that are made anew for each process: names may be secrets
/// (tokens, sessions), and what is shown of them gives nothing away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId {
    kind: Kind,
    bytes: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    V4,
    V6,
    Named,
}

impl ClientId {
    /// The client behind an address.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self { kind: Kind::V4, bytes: address.to_ipv6_mapped().octets() },
            IpAddr::V6(address) => {
                let group = Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64));
                Self { kind: Kind::V6, bytes: group.octets() }
            }
        }
    }

    /// The client that has this name: a user, a session, a token.
    #[must_use]
    pub fn named(name: &[u8]) -> Self {
        // Keyed, so that nobody can make two names that are one client.
        static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let [first, second] = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.hash_one(name).to_le_bytes());
        bytes[8..].copy_from_slice(&second.hash_one(name).to_le_bytes());
        Self { kind: Kind::Named, bytes }
    }
}

/// An address as it is, a group of addresses as its prefix, a name as eight digits of its hash.
impl fmt::Display for ClientId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::V4 => {
                let [.., a, b, c, d] = self.bytes;
                Ipv4Addr::new(a, b, c, d).fmt(to)
            }
            Kind::V6 => write!(to, "{}/64", Ipv6Addr::from(self.bytes)),
            Kind::Named => {
                let [a, b, c, d, ..] = self.bytes;
                write!(to, "name #{a:02x}{b:02x}{c:02x}{d:02x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_client_and_names_are_not_shown() {
        let of = |text: &str| ClientId::address(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("::"), of("0.0.0.0"));
        assert_eq!(of("192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(of("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
        let name = ClientId::named(b"secret-session");
        assert_eq!(name, ClientId::named(b"secret-session"));
        assert_ne!(name, ClientId::named(b"secret-sessio"));
        let shown = name.to_string();
        assert!(shown.starts_with("name #") && shown.len() == 14, "{shown}");
        assert!(!format!("{name:?}").contains("secret"));
    }
}
