#include "exec/core/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace meshwright::exec {

namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41, lowest bit first

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? polynomial : 0);
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_processor(const unsigned char* data,
                                                                    std::size_t bytes,
                                                                    std::uint32_t before) {
  std::uint64_t sum = ~before;
  for (; bytes >= 8; bytes -= 8, data += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    sum = _mm_crc32_u64(sum, word);
  }
  auto rest = static_cast<std::uint32_t>(sum);
  for (; bytes > 0; --bytes, ++data) rest = _mm_crc32_u8(rest, *data);
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(const void* data, std::size_t bytes, std::uint32_t before) {
  const auto* from = static_cast<const unsigned char*>(data);
  std::uint32_t sum = ~before;
  for (std::size_t i = 0; i < bytes; ++i) sum = (sum >> 8) ^ table[(sum ^ from[i]) & 0xff];
  return ~sum;
}

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0)
    return crc32c_by_processor(static_cast<const unsigned char*>(data), bytes, before);
#endif
  return crc32c_by_table(data, bytes, before);
}

std::string hex8(std::uint32_t value) {
  std::string text(8, '0');
  for (std::size_t i = 8; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

bool parse_hex8(std::string_view text, std::uint32_t& value) {
  if (text.size() != 8) return false;
  value = 0;
  for (char c : text) {
    const auto digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return false;
    value = value << 4 | static_cast<std::uint32_t>(digit);
  }
  return true;
}

}  // namespace meshwright::exec
