//! Ribbon filters: for sets that never change, at the least size there is.
