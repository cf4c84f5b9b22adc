//! Room that is added when it is first needed: one pointer until then.
//!
//! A `OnceLock<Box<T>>` is two words; where there are millions and few of them are ever filled, the second one counts.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Nothing, or a box that stays once it is there.
///
/// ```
/// use bloomgate::bits::Annex;
///
/// let annex = Annex::<String>::new();
/// assert!(annex.get().is_none());
/// assert_eq!(annex.get_or_add(|| "rare".into()), "rare");
/// assert_eq!(annex.get_or_add(|| "again".into()), "rare");
/// ```
pub struct Annex<T> {
    added: AtomicPtr<T>,
    owns: PhantomData<Box<T>>,
}

// SAFETY: it is an Option<Box<T>>, as far as other threads are concerned: given to another thread, T goes with it.
unsafe impl<T: Send> Send for Annex<T> {}
// SAFETY: through a shared reference another thread may see T and may be the one that puts it there.
unsafe impl<T: Send + Sync> Sync for Annex<T> {}

impl<T> Annex<T> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { added: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// What was added.
    #[must_use]
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        let added = NonNull::new(self.added.load(Ordering::Acquire))?;
        // SAFETY: it came from a box, was published after it was whole, and stays until `self` is dropped.
        Some(unsafe { added.as_ref() })
    }

    /// What was added, or is now. Of several threads that come at once one puts it there; what the others made is dropped.
    #[inline]
    pub fn get_or_add(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(added) => added,
            None => self.add(Box::new(make())),
        }
    }

    #[cold]
    fn add(&self, made: Box<T>) -> &T {
        let made = Box::into_raw(made);
        match self.added.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it came from a box just now and stays until `self` is dropped.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: nobody else has seen `made`, which came from a box; `first` is as in `get`.
                unsafe {
                    drop(Box::from_raw(made));
                    &*first
                }
            }
        }
    }
}

impl<T> Default for Annex<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Annex<T> {
    fn drop(&mut self) {
        if let Some(added) = NonNull::new(*self.added.get_mut()) {
            // SAFETY: it came from a box, and with `&mut self` nobody borrows it.
            drop(unsafe { Box::from_raw(added.as_ptr()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Annex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Annex").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn miri_an_annex_is_added_once_and_dropped_once() {
        let witness = Arc::new(());
        for add in [false, true] {
            let annex = Annex::new();
            if add {
                let first: *const Arc<()> = annex.get_or_add(|| witness.clone());
                assert!(ptr::eq(annex.get_or_add(|| panic!("it is there")), first));
            }
            assert_eq!((annex.get().is_some(), Arc::strong_count(&witness)), (add, 1 + usize::from(add)));
        }
        assert_eq!(Arc::strong_count(&witness), 1);
        assert_eq!(size_of::<Annex<[u64; 9]>>(), 8);
    }

    #[test]
    fn miri_of_threads_that_add_at_once_all_see_one() {
        let witness = Arc::new(());
        let annex = Annex::new();
        let seen: Vec<usize> = std::thread::scope(|scope| {
            let add = |_| scope.spawn(|| ptr::from_ref(annex.get_or_add(|| witness.clone())).addr());
            let threads: Vec<_> = (0..4).map(add).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|&at| at == seen[0]));
        assert_eq!(Arc::strong_count(&witness), 2);
    }
}
