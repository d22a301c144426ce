//! Bare-metal machines: their states, drivers, steps and shipped profiles.
