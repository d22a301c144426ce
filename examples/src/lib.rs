//! Host applications of better-compute.
