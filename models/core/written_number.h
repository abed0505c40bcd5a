// Reads numbers as people write them: 60B, 15k, $15,000, 128k, 5 %, 2 weeks. The command line and
// job files share this reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Says what a number counts. In a length of sequences, k is 1024, as in "a context of 128k".
// Elsewhere k is 1000.
enum class NumberKind : std::uint8_t { count, length, usd, seconds, share };

// Returns the number, or nothing if `text` is none. Words may be in any case.
//   count: 64, 1e9, 60B, 60 billion, 20M tokens, 2.5T, 1,000
//   length: 4096, 128k
//   usd: 15000, $15,000, 15k, 15k USD
//   seconds: 90, 12h, 1.5 days, 2 weeks, 1d 12h, a month (30 days), weekend (2 days)
//   share: 0.05, 5%
std::optional<double> written_number(std::string_view text, NumberKind quantity);

// Returns what is expected, for messages: "a number of dollars, such as 15000, 15k or $15,000".
std::string_view expected_number(NumberKind quantity);

}  // namespace meshwright::core
