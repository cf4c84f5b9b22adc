//! To come.
use crate::{options::Options, report::Row, subject::Policy};
pub fn drill(_: &Options, _: Policy) -> Result<Row, String> {
    Err("not written".into())
}
