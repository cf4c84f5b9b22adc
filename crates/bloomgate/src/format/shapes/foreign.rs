//! The shapes of foreign forms: their own headers, kept as they are.

use super::super::frame::corrupt;
use crate::error::Result;
use crate::foreign::{BfV1Shape, GuavaShape, ParquetShape, RedisBloomShape, RedisCuckooShape, Shape};
use crate::kind::Kind;

/// Any of the foreign shapes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnyForm {
    BfV1(BfV1Shape),
    RedisBloom(RedisBloomShape),
    RedisCuckoo(RedisCuckooShape),
    Guava(GuavaShape),
    Parquet(ParquetShape),
}

/// The same call on whichever form it is.
macro_rules! on {
    ($form:expr, $shape:ident => $call:expr) => {
        match $form {
            AnyForm::BfV1($shape) => $call,
            AnyForm::RedisBloom($shape) => $call,
            AnyForm::RedisCuckoo($shape) => $call,
            AnyForm::Guava($shape) => $call,
            AnyForm::Parquet($shape) => $call,
        }
    };
}

impl AnyForm {
    pub(crate) fn kind(&self) -> Kind {
        fn of<F: Shape>(_: &F) -> Kind {
            F::KIND
        }
        on!(self, shape => of(shape))
    }

    pub(super) fn words(&self) -> u64 {
        on!(self, shape => shape.words())
    }

    pub(super) fn spare(&self) -> u64 {
        on!(self, shape => shape.spare())
    }

    pub(super) fn header(&self) -> Vec<u8> {
        on!(self, shape => shape.header())
    }

    pub(super) fn expected_rate(&self, items: u64) -> f64 {
        on!(self, shape => shape.expected_rate(items))
    }

    pub(super) fn read(kind: Kind, header: &[u8]) -> Result<Self> {
        Ok(match kind {
            Kind::BfV1 => Self::BfV1(BfV1Shape::from_header(header)?),
            Kind::RedisBloom => Self::RedisBloom(RedisBloomShape::from_header(header)?),
            Kind::RedisCuckoo => Self::RedisCuckoo(RedisCuckooShape::from_header(header)?),
            Kind::Guava => Self::Guava(GuavaShape::from_header(header)?),
            Kind::Parquet => Self::Parquet(ParquetShape::from_header(header)?),
            other => return Err(corrupt(format!("SHAPE: a {other} filter has no foreign header"))),
        })
    }
}

/// A foreign shape among all of them, and back.
pub(crate) trait AForm: Shape {
    fn any(&self) -> AnyForm;
    fn from_any(any: AnyForm) -> Option<Self>;
}

macro_rules! forms {
    ($($form:ident: $shape:ident),*) => {$(
        impl AForm for $shape {
            fn any(&self) -> AnyForm {
                AnyForm::$form(self.clone())
            }
            fn from_any(any: AnyForm) -> Option<Self> {
                match any {
                    AnyForm::$form(shape) => Some(shape),
                    _ => None,
                }
            }
        }
    )*};
}
forms!(
    BfV1: BfV1Shape,
    RedisBloom: RedisBloomShape,
    RedisCuckoo: RedisCuckooShape,
    Guava: GuavaShape,
    Parquet: ParquetShape
);
