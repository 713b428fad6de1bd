//! What the measurements are compared with: crypto libraries called in the process that wants the result.

pub(crate) mod openssl;
