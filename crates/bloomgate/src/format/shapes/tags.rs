//! The fields of SHAPE and COUNTS: a number each, which never changes its meaning.

use super::super::fields::Tag;

// Every shape.
pub(super) const KIND: Tag = Tag::critical(1);
pub(super) const CAPACITY: Tag = Tag::critical(2);
pub(super) const RATE: Tag = Tag::critical(3);
pub(super) const WHEN_FULL: Tag = Tag::critical(4);
// The dimensions of one piece.
pub(super) const BITS: Tag = Tag::critical(16);
pub(super) const HASHES: Tag = Tag::critical(17);
pub(super) const LINES: Tag = Tag::critical(18);
pub(super) const LINES_PER_KEY: Tag = Tag::critical(19);
pub(super) const PAIRED: Tag = Tag::critical(20);
pub(super) const SLICE_BITS: Tag = Tag::critical(21);
pub(super) const COUNTER_BITS: Tag = Tag::critical(22);
// A chain.
pub(super) const STAGE_KIND: Tag = Tag::critical(32);
pub(super) const STAGES: Tag = Tag::critical(33);
pub(super) const GROWTH: Tag = Tag::critical(34);
pub(super) const TIGHTENING: Tag = Tag::critical(35);
pub(super) const TIGHTENING_STAGES: Tag = Tag::critical(36);
pub(super) const TIGHTENING_RISE: Tag = Tag::critical(37);
pub(super) const TIGHTENING_THEN: Tag = Tag::critical(38);
// COUNTS.
pub(super) const LEN: Tag = Tag::critical(1);
