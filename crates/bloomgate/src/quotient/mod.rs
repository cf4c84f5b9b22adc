//! Quotient filters: sorted remainders, which can be listed, merged and grown without the keys.
