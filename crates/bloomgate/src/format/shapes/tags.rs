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
// Cells that decay.
pub(super) const ROWS: Tag = Tag::critical(48);
pub(super) const ROUND: Tag = Tag::critical(49);
// Fingerprints.
pub(super) const BUCKETS: Tag = Tag::critical(64);
pub(super) const FINGERPRINT_BITS: Tag = Tag::critical(65);
pub(super) const COPIES: Tag = Tag::critical(66);
pub(super) const SLOTS: Tag = Tag::critical(72);
pub(super) const INTERVAL: Tag = Tag::critical(73);
pub(super) const SEGMENT_LENGTH: Tag = Tag::critical(80);
pub(super) const SEGMENT_COUNT: Tag = Tag::critical(81);
pub(super) const SHARDS: Tag = Tag::critical(82);
pub(super) const SEED: Tag = Tag::critical(83);
pub(super) const RESULT_BITS: Tag = Tag::critical(96);
pub(super) const COLUMNS: Tag = Tag::critical(97);
// A foreign form: its header, as the form writes it.
pub(super) const FOREIGN_HEADER: Tag = Tag::critical(128);
// A chain.
pub(super) const STAGE_KIND: Tag = Tag::critical(32);
pub(super) const STAGES: Tag = Tag::critical(33);
pub(super) const GROWTH: Tag = Tag::critical(34);
pub(super) const TIGHTENING: Tag = Tag::critical(35);
pub(super) const TIGHTENING_STAGES: Tag = Tag::critical(36);
pub(super) const TIGHTENING_RISE: Tag = Tag::critical(37);
pub(super) const TIGHTENING_THEN: Tag = Tag::critical(38);
// A ring.
pub(super) const WINDOW: Tag = Tag::critical(112);
pub(super) const GENERATIONS: Tag = Tag::critical(113);
pub(super) const MAX_STEP: Tag = Tag::critical(114);
// COUNTS.
pub(super) const LEN: Tag = Tag::critical(1);
// COUNTS of a ring, part 0.
pub(super) const YOUNGEST: Tag = Tag::critical(16);
pub(super) const ELAPSED: Tag = Tag::critical(17);
pub(super) const CLOCK: Tag = Tag::critical(18);
