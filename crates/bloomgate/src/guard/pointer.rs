//! The one pointer that lookups follow: to the version that may say no, or to nothing.

use std::sync::Arc;

use super::Version;

/// Read without a lock and without meeting other readers (arc-swap: a slot of the thread's own, 5 to 10 ns); exchanged in
/// one step.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(super) struct Pointer(arc_swap::ArcSwapOption<Version>);

#[cfg(not(loom))]
impl Pointer {
    #[inline]
    pub(super) fn read<T>(&self, read: impl FnOnce(Option<&Version>) -> T) -> T {
        read(self.0.load().as_deref())
    }

    pub(super) fn set(&self, version: Option<Arc<Version>>) {
        self.0.store(version);
    }
}

/// Under loom a lock of loom's own, which has the same order of reads and writes.
#[cfg(loom)]
#[derive(Debug, Default)]
pub(super) struct Pointer(loom::sync::RwLock<Option<Arc<Version>>>);

#[cfg(loom)]
impl Pointer {
    pub(super) fn read<T>(&self, read: impl FnOnce(Option<&Version>) -> T) -> T {
        read(self.0.read().unwrap().as_deref())
    }

    pub(super) fn set(&self, version: Option<Arc<Version>>) {
        *self.0.write().unwrap() = version;
    }
}
