//! Binary fuse filters: for sets that are known whole and never change.
