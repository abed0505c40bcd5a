// Reads numbers as people write them: 60B, 15k, $15,000, 128k, 5 %, 2 weeks. Both the command line
// and job files use it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Says what a number counts. In a length of sequences, k is 1024, as in "a context of 128k". In a
// count and in dollars, k is 1000.
enum class NumberKind : std::uint8_t { count, length, usd, seconds, share, bytes, whole, real };

// Returns the number, or nothing if `text` is none. The case of letters does not matter. Examples:
//   count: 64, 1e9, 10^9, 60B, sixty billion, 20M tokens, 2.5T, 1,000, 15 000
//   length: 4096, 128k
//   usd: 15000, $15,000, 15k, USD 15k, under 15k
//   seconds: 90, 12h, 1.5 days, two weeks, 1d 12h, a month (30 days), weekend (2 days)
//   share: 0.05, 5%
//   bytes, also per second: 100000, 100 kB, 25 MiB, 2 GB/s
//   whole, real: a number without a unit: 8, eight, 1e-4 (the caller checks that it is whole)
// Texts that people read in two ways are rejected: 15.000 for `count` and `usd`, 3m for `seconds`.
std::optional<double> written_number(std::string_view text, NumberKind quantity);

// Returns what is expected, for messages: "dollars above 0, such as 25000, 25k or $25,000".
std::string_view expected_number(NumberKind quantity);

// Returns the message about a text that is no such number: what is expected, what was found, and,
// if it can be guessed, how to write what the person meant.
std::string wrong_number(std::string_view text, NumberKind quantity);

}  // namespace meshwright::core
