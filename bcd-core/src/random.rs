//! The operating system's random numbers, for identifiers, nonces, tokens and keys.
//!
//! Pure functions that need randomness take it as an argument; this is where shells get it.

/// `N` random bytes.
///
/// # Panics
/// When the operating system has no random numbers: nothing safe can be done then.
#[must_use]
#[expect(
    clippy::expect_used,
    reason = "without randomness no key, token or nonce is safe, and no caller could go on"
)]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    bytes
}
