// Whether this is built with AddressSanitizer. It looks at addresses, which are alike in every
// precision and in many a combination: where all of them would take minutes, some are enough.
#pragma once

namespace meshwright::tests {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace meshwright::tests
