//! What waits to be written: frames in their order, in chunks that go to one file each.

use super::frame;
use super::segment::{FileHeader, new_salt};

/// Frames that go to one file.
pub(crate) struct Chunk {
    /// They begin this file.
    pub(super) starts: Option<FileHeader>,
    pub(super) frames: Vec<u8>,
    pub(super) last: u64,
}

/// What waits to be written.
pub(crate) struct Queue {
    pub(super) pending: Vec<Chunk>,
    /// A buffer that was written, to be filled again.
    pub(super) spare: Vec<u8>,
    pub(super) next: u64,
    /// Where the header checksums of the current segment start; `None`: the next batch begins a segment.
    pub(super) salted: Option<u32>,
    /// What the segment before holds past the next batch is void.
    pub(super) cut: bool,
    /// Bytes that went to the current segment, and its first sequence.
    pub(super) fill: u64,
    pub(super) first: u64,
    pub(super) closing: bool,
}

impl Queue {
    pub(super) fn begin_segment(&mut self) -> u32 {
        let header = FileHeader { salt: new_salt(), first: self.next, cut: std::mem::take(&mut self.cut) };
        let salted = frame::salted(&header.salt);
        self.salted = Some(salted);
        self.fill = 0;
        self.first = self.next;
        let frames = std::mem::take(&mut self.spare);
        self.pending.push(Chunk { last: self.next - 1, starts: Some(header), frames });
        salted
    }

    /// What came while a new file was made goes to that file, behind what is durable; how many bytes that is.
    pub(super) fn bring_over(&mut self, salted: u32, durable: u64) -> u64 {
        let mut frames: Vec<u8> = self.pending.drain(..).flat_map(|chunk| chunk.frames).collect();
        let bytes = frames.len() as u64;
        if bytes > 0 {
            frame::reseal(&mut frames, salted, durable);
            self.pending.push(Chunk { starts: None, frames, last: self.next - 1 });
        }
        bytes
    }

    pub(super) fn has_new_segment(&self) -> bool {
        self.pending.iter().any(|chunk| chunk.starts.is_some())
    }
}
