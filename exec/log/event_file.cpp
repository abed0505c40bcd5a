#include "exec/log/event_file.h"

#include <event.pb.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "exec/core/crc32c.h"

namespace meshwright::exec {

namespace {

std::string bytes_of(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(data);
  return bytes_of((crc >> 15 | crc << 17) + 0xa282ead8U, 4);
}

tensorboard::Event event_now() {
  const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
  tensorboard::Event event;
  event.set_wall_time(since.count());
  return event;
}

// Writes an event as a record (TFRecord): length, checksum of the length, data, checksum.
void add_record(GrowingFile& file, const tensorboard::Event& event) {
  const std::string data = event.SerializeAsString();
  const std::string length = bytes_of(data.size(), 8);
  file.add(length + masked_crc(length) + data + masked_crc(data));
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
  tensorboard::Event event = event_now();
  event.set_file_version("brain.Event:2");
  add_record(file_, event);
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) {
  tensorboard::Event event = event_now();
  event.set_step(step);
  tensorboard::Summary& summary = *event.mutable_summary();
  for (const Scalar& scalar : scalars) {
    tensorboard::Summary::Value& value = *summary.add_value();
    value.set_tag(std::string(scalar.tag));
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  add_record(file_, event);
}

}  // namespace meshwright::exec
