#include "exec/log/event_file.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <filesystem>

#include "exec/core/crc32c.h"

namespace meshwright {

namespace {

// Numbers of the fields in event.proto and summary.proto.
constexpr int event_wall_time = 1, event_step = 2, event_version = 3, event_summary = 5;
constexpr int summary_value = 1, value_tag = 1, value_simple = 2;

// The ways to write a field's value (protocol buffers' wire types).
enum WireType { varint = 0, fixed64 = 1, with_length = 2, fixed32 = 5 };

std::string bytes_of_integer(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

// Returns a number in seven bits a byte, the lowest first. The top bit of a byte says that more
// bytes follow.
std::string varint_of(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7f) | 0x80);
  return text + static_cast<char>(value);
}

std::string key(int field, WireType type) {
  return varint_of(static_cast<std::uint64_t>(field) << 3 | type);
}

std::string text_field(int field, std::string_view text) {
  return key(field, with_length) + varint_of(text.size()) + std::string(text);
}

std::string float_field(int field, double value) {
  return key(field, fixed32) +
         bytes_of_integer(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
}

std::string event_now() {
  const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
  return key(event_wall_time, fixed64) +
         bytes_of_integer(std::bit_cast<std::uint64_t>(since.count()), 8);
}

std::string masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(data);
  return bytes_of_integer((crc >> 15 | crc << 17) + 0xa282ead8U, 4);
}

// Returns the name events.out.tfevents.SECONDS.HOST.PROCESS for a new file. TensorBoard looks for
// the first words, and reads files in the order of their names.
std::string new_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  return "events.out.tfevents." + std::to_string(seconds) + "." + host + "." +
         std::to_string(getpid());
}

}  // namespace

EventFile::EventFile(const std::string& folder)
    : file_(GrowingFile::create((std::filesystem::path(folder) / new_name()).string())) {
  write(event_now() + text_field(event_version, "brain.Event:2"));
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars)
    summary += text_field(
        summary_value, text_field(value_tag, scalar.tag) + float_field(value_simple, scalar.value));
  write(event_now() + key(event_step, varint) + varint_of(static_cast<std::uint64_t>(step)) +
        text_field(event_summary, summary));
}

void EventFile::write(const std::string& event) {
  const std::string length = bytes_of_integer(event.size(), 8);
  file_.add(length + masked_crc(length) + event + masked_crc(event));
}

}  // namespace meshwright
