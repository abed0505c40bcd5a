// CRC-32C (Castagnoli, RFC 3720): finds every single flipped bit and every burst up to 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright::exec {

// Returns the checksum of `bytes` bytes at `data`. `before` is the checksum of the data before
// them, if there are any, so that data can be summed piece by piece.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before = 0);
inline std::uint32_t crc32c(std::string_view text) { return crc32c(text.data(), text.size()); }
std::uint32_t crc32c_by_table(const void* data, std::size_t bytes, std::uint32_t before);

std::string hex8(std::uint32_t value);  // always eight digits
// Parses a number of eight lower-case hexadecimal digits. Returns false if `text` is anything else.
bool parse_hex8(std::string_view text, std::uint32_t& value);

}  // namespace meshwright::exec
