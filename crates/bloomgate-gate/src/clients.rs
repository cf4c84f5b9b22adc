//! Whose request it is, for the caps on single clients: the address it comes from, the one that a trusted proxy names, or
//! a header that such a proxy sets. What a client writes itself is never believed.

use std::net::IpAddr;
use std::str::FromStr;

#[cfg(not(feature = "layer"))]
use axum::http::{HeaderMap, HeaderName};
#[cfg(feature = "layer")]
use hyper::http::{HeaderMap, HeaderName};

use crate::callers::ClientId;
use crate::error::{Error, ErrorKind};

/// What proxies append the address to from which they were asked. (`Forwarded`, RFC 7239, is not read.)
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// So many proxies may be behind each other.
const HOPS: usize = 32;

/// How clients are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// What makes two requests those of one client.
    pub by: ClientBy,
    /// Proxies that are believed. None: only the address of the connection counts.
    pub trusted: Vec<Network>,
}

/// What makes two requests those of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientBy {
    /// Where they come from: an address of IPv4, a /64 of IPv6.
    #[default]
    Address,
    /// What this header says, which a trusted proxy sets. Without it, or from elsewhere, where they come from.
    Header(HeaderName),
}

impl FromStr for ClientBy {
    type Err = Error;

    /// `address` or `header:NAME`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let message = format!("{text:?} does not say who is a client: write address or header:NAME");
            Error::new(ErrorKind::Invalid, message)
        };
        match text.split_once(':') {
            None if text == "address" => Ok(Self::Address),
            Some(("header", name)) => name.trim().parse().map(Self::Header).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// An address, or all of a prefix: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Whether an address is one of it.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                (mine.to_bits() ^ other.to_bits()).checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                (mine.to_bits() ^ other.to_bits()).checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    /// `192.0.2.1`, `10.0.0.0/8` or `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let message =
                format!("{text:?} is no address and no prefix: write one like 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32");
            Error::new(ErrorKind::Invalid, message)
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                (address, Some(bits.parse::<u32>().map_err(|_| wrong())?))
            }
            Some(_) => return Err(wrong()),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match bits.unwrap_or(most) {
            // ::ffff:10.0.0.0/104 is 10.0.0.0/8.
            bits @ 96..=128 if address.is_ipv6() && address.to_canonical().is_ipv4() => {
                Ok(Self { address: address.to_canonical(), bits: bits - 96 })
            }
            bits if bits <= most => Ok(Self { address, bits }),
            _ => Err(wrong()),
        }
    }
}

impl Clients {
    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.has(address))
    }

    /// The client of a request that came over a connection from this address.
    #[must_use]
    pub fn of(&self, peer: IpAddr, headers: &HeaderMap) -> ClientId {
        if !self.trusts(peer) {
            return ClientId::address(peer);
        }
        if let ClientBy::Header(name) = &self.by {
            let mut values = headers.get_all(name).iter();
            // Of two, one may be the client's own.
            if let (Some(value), None) = (values.next(), values.next())
                && !value.is_empty()
            {
                return ClientId::named(value.as_bytes());
            }
        }
        ClientId::address(self.behind(peer, headers))
    }

    /// The address behind the proxies. Each has appended the one from which it was asked, so they are read from the end: the
    /// first that is no proxy of ours is the client, and what stands before it is what the client wrote.
    fn behind(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut last = peer;
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        let hops = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
        for hop in hops.take(HOPS) {
            // What is no address was not written by a proxy of ours: the last one that was is all that is known.
            let Some(address) = std::str::from_utf8(hop).ok().and_then(address) else { break };
            last = address;
            if !self.trusts(address) {
                break;
            }
        }
        last
    }
}

/// The address of one hop: alone, or with a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let alone = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = alone.parse().ok().or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "layer"))]
    use axum::http::HeaderValue;
    #[cfg(feature = "layer")]
    use hyper::http::HeaderValue;

    use super::*;

    fn clients(by: &str, trusted: &[&str]) -> Clients {
        let trusted = trusted.iter().map(|text| text.parse().unwrap()).collect();
        Clients { by: by.parse().unwrap(), trusted }
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[track_caller]
    fn is(clients: &Clients, peer: &str, lines: &[(&'static str, &'static str)], who: &str) {
        assert_eq!(clients.of(peer.parse().unwrap(), &headers(lines)).to_string(), who, "{peer} {lines:?}");
    }

    #[test]
    fn nobody_is_believed_who_is_not_trusted() {
        let plain = clients("address", &[]);
        is(&plain, "192.0.2.1", &[("x-forwarded-for", "203.0.113.9")], "192.0.2.1");
        is(&plain, "2001:db8::1", &[], "2001:db8::/64");
        let named = clients("header:x-user", &["10.0.0.0/8"]);
        is(&named, "192.0.2.1", &[("x-user", "anybody"), ("x-forwarded-for", "203.0.113.9")], "192.0.2.1");
    }

    #[test]
    fn proxies_are_read_from_the_end_up_to_the_first_that_is_none() {
        let clients = clients("address", &["10.0.0.0/8", "2001:db8:f::/48"]);
        for (sent, who) in [
            (&["203.0.113.9"][..], "203.0.113.9"),
            // What the client wrote itself stands before what the proxies saw.
            (&["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
            (&["10.9.9.9, 203.0.113.9"], "203.0.113.9"),
            (&["203.0.113.9, 10.1.1.1 , 10.2.2.2"], "203.0.113.9"),
            (&["198.51.100.1,203.0.113.9", "10.1.1.1"], "203.0.113.9"),
            (&["203.0.113.9, 2001:db8:f:1::1"], "203.0.113.9"),
            (&["203.0.113.9:4711"], "203.0.113.9"),
            (&["[2001:db8:1:2::3]:4711"], "2001:db8:1:2::/64"),
            (&["::ffff:203.0.113.9"], "203.0.113.9"),
            (&["unknown, 10.1.1.1"], "10.1.1.1"),
            (&["203.0.113.9, garbage, 10.1.1.1"], "10.1.1.1"),
            (&["garbage"], "10.0.0.1"),
            (&[""], "10.0.0.1"),
            (&[], "10.0.0.1"),
            (&["10.3.3.3, 10.1.1.1"], "10.3.3.3"),
        ] {
            let lines: Vec<_> = sent.iter().map(|value| ("x-forwarded-for", *value)).collect();
            is(&clients, "10.0.0.1", &lines, who);
        }
        is(&clients, "192.0.2.1", &[("x-forwarded-for", "203.0.113.9")], "192.0.2.1");
    }

    #[test]
    fn a_name_is_one_that_a_proxy_has_set_alone() {
        let clients = clients("header:x-user", &["10.0.0.1"]);
        let name = |value: &[u8]| ClientId::named(value).to_string();
        is(&clients, "10.0.0.1", &[("x-user", "ann"), ("x-forwarded-for", "203.0.113.9")], &name(b"ann"));
        for lines in [
            &[("x-user", "ann"), ("x-user", "bob"), ("x-forwarded-for", "203.0.113.9")][..],
            &[("x-user", ""), ("x-forwarded-for", "203.0.113.9")],
            &[("x-forwarded-for", "203.0.113.9")],
        ] {
            is(&clients, "10.0.0.1", lines, "203.0.113.9");
        }
    }

    #[test]
    fn networks_have_their_addresses_and_no_others() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.7/32", "::ffff:192.0.2.7", "192.0.2.6"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.has(inside.parse().unwrap()) && !network.has(outside.parse().unwrap()), "{network:?}");
        }
        for wrong in
            ["", "10.0.0.0/33", "2001:db8::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "proxy", "10.0.0.0/8/8"]
        {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        for wrong in ["", "addresses", "header", "header:", "header:a b", "cookie:x"] {
            assert!(wrong.parse::<ClientBy>().is_err(), "{wrong}");
        }
    }
}
