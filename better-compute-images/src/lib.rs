//! The signed image catalog: references, signers, verification and the catalog itself.
