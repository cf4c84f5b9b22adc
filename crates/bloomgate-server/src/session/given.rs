//! The words of a command that somebody else runs, in one piece of memory: a million words of their own take as long to
//! allocate as to add.

/// The words of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Given {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The word at this place.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends.get(before).copied().unwrap_or(0));
        self.ends.get(at).map(|&end| &self.bytes[start..end])
    }

    /// The first word: the command.
    #[must_use]
    pub fn first(&self) -> Option<&[u8]> {
        self.get(0)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}

impl<W: AsRef<[u8]>> FromIterator<W> for Given {
    fn from_iter<I: IntoIterator<Item = W>>(words: I) -> Self {
        let words = words.into_iter();
        let mut given = Self { bytes: Vec::new(), ends: Vec::with_capacity(words.size_hint().0) };
        for word in words {
            given.bytes.extend_from_slice(word.as_ref());
            given.ends.push(given.bytes.len());
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were() {
        let words: [&[u8]; 4] = [b"BF.ADD", b"", b"f", b"x\r\n"];
        let given: Given = words.iter().collect();
        assert_eq!((given.len(), given.is_empty(), given.first()), (4, false, Some(words[0])));
        assert!(given.iter().eq(words) && (0..4).all(|at| given.get(at) == Some(words[at])));
        assert_eq!((given.get(4), Given::default().first(), Given::default().get(1)), (None, None, None));
    }
}
