//! Random numbers from a seed.

/// Random numbers from a seed (xorshift64*; Vigna 2016), so that a failure can be repeated.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Makes the dice of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `sides`.
    pub const fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    /// Returns true once in so many times.
    pub const fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }
}
