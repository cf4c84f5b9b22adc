//! An empty filter of each kind that the command builds.

use bloomgate::foreign::{BfV1, Guava, Parquet, RedisBloom, RedisCuckoo};
use bloomgate::{AnyFilter, Blocked, Classic, Contract, Counting, Cuckoo, GrowingCuckoo, Kind};
use bloomgate::{Partitioned, Quotient, Scalable, WhenFull};

use super::Args;
use crate::failure::Failure;

/// An empty filter of the kind that was asked for; those that can be folded are rounded for so many halvings.
pub fn empty(args: &Args, items: u64, fold_levels: u32, contract: Contract) -> Result<AnyFilter, Failure> {
    let fold_levels = fold_levels.max(args.fold_levels);
    let usual = match args.kind() {
        Kind::Scalable | Kind::GrowingCuckoo | Kind::RedisBloom | Kind::RedisCuckoo => WhenFull::Grow,
        Kind::Cuckoo => WhenFull::Refuse,
        _ => WhenFull::GoOn,
    };
    let when_full = args.when_full.unwrap_or(usual);
    macro_rules! build {
        ($filter:ident $(, $more:ident)*) => {
            $filter::builder()
                .items(items)
                .rate(args.rate())
                .headroom(args.headroom)
                .when_full(when_full)
                .contract(contract)
                $(.$more($more))*
                .build()?
                .into()
        };
    }
    Ok(match args.kind() {
        Kind::Blocked => build!(Blocked, fold_levels),
        Kind::Classic => build!(Classic, fold_levels),
        Kind::Partitioned => build!(Partitioned, fold_levels),
        Kind::Counting => build!(Counting),
        Kind::Scalable => build!(Scalable),
        Kind::Cuckoo => build!(Cuckoo),
        Kind::GrowingCuckoo => build!(GrowingCuckoo),
        Kind::Quotient => build!(Quotient),
        Kind::BfV1 => build!(BfV1),
        Kind::RedisBloom => build!(RedisBloom),
        Kind::RedisCuckoo => {
            // Its fingerprints have 8 bits whatever is asked.
            let builder = RedisCuckoo::builder().items(items).headroom(args.headroom).when_full(when_full);
            match args.rate {
                Some(rate) => builder.rate(rate).build(),
                None => builder.build(),
            }
            .map_err(|error| match error.kind() {
                bloomgate::ErrorKind::InvalidParameter if args.rate.is_some() => {
                    Failure::Message(format!("{error}; or leave --rate out, and the form keeps what it can"))
                }
                _ => error.into(),
            })?
            .into()
        }
        Kind::Guava => build!(Guava),
        Kind::Parquet => build!(Parquet),
        other => return Err(Failure::Message(format!("this command cannot build a {other} filter"))),
    })
}
