// Reads TensorBoard's event files back with a slow reader of this test: checksums bit by bit,
// fields one by one.
#include "exec/log/event_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
namespace fs = std::filesystem;

namespace {

// Computes CRC-32C one bit at a time, with the polynomial 0x1EDC6F41, reflected.
std::uint32_t slow_crc(const std::string& data) {
  std::uint32_t crc = ~0U;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78U : crc >> 1;
  }
  return ~crc;
}

std::uint64_t integer(const std::string& data, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(data.at(at + i))} << (8 * i);
  return value;
}

std::uint32_t unmasked(std::uint64_t masked) {
  const auto rotated = static_cast<std::uint32_t>(masked) - 0xa282ead8U;
  return rotated >> 17 | rotated << 15;
}

std::vector<std::string> records_of(const std::string& data) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < data.size();) {
    const std::uint64_t length = integer(data, at, 8);
    CHECK(unmasked(integer(data, at + 8, 4)) == slow_crc(data.substr(at, 8)));
    records.push_back(data.substr(at + 12, length));
    REQUIRE(records.back().size() == length);
    CHECK(unmasked(integer(data, at + 12 + length, 4)) == slow_crc(records.back()));
    at += 16 + length;
  }
  return records;
}

struct Field {
  std::uint64_t number = 0;  // a varint, or the bits of what has a fixed size
  std::string bytes;
};

std::uint64_t varint(const std::string& data, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(data.at(at++));
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

std::multimap<std::uint64_t, Field> fields_of(const std::string& message) {
  std::multimap<std::uint64_t, Field> fields;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = varint(message, at);
    Field field;
    const std::size_t fixed = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : 0;
    if (fixed > 0) {
      field.number = integer(message, at, fixed);
      at += fixed;
    } else {
      field.number = varint(message, at);
      if ((key & 7) == 2) {
        field.bytes = message.substr(at, field.number);
        at += field.number;
      }
    }
    fields.emplace(key >> 3, field);
  }
  return fields;
}

const Field& only(const std::multimap<std::uint64_t, Field>& fields, std::uint64_t number) {
  REQUIRE(fields.count(number) == 1);
  return fields.find(number)->second;
}

}  // namespace

TEST_CASE("a log goes on after its last whole line", "[exec][log]") {
  const TestFolder folder;
  const std::string path = folder.path() + "/deep/log";
  GrowingFile::append_lines(path).add("one\n");
  {
    GrowingFile file = GrowingFile::append_lines(path);
    file.add("two\n");
    file.add("three and no end");
  }
  GrowingFile::append_lines(path).add("four\n");
  CHECK(content_of(path) == "one\ntwo\nfour\n");
  write_content(path, "nothing but a torn line");
  GrowingFile::append_lines(path).add("five\n");
  CHECK(content_of(path) == "five\n");
  GrowingFile::create(path).add("six\n");
  CHECK(content_of(path) == "six\n");
}

TEST_CASE("a record that does not fit is taken back, and said", "[exec][log]") {
  const TestFolder folder;
  const std::string path = folder.file("log");
  GrowingFile file = GrowingFile::create(path);
  file.add("whole\n");
  std::signal(SIGXFSZ, SIG_IGN);  // as the program does
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string said = message_of([&] { file.add("does not fit\n"); });
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(said == path + ": cannot be written: File too large");
  CHECK(content_of(path) == "whole\n");
  CHECK(message_of([&] { GrowingFile::create("/dev/full").add("x"); }) ==
        "/dev/full: cannot be written: No space left on device");
  CHECK(message_of([&] { GrowingFile::create(path + "/below"); }) ==
        path + "/below: cannot be opened for writing: Not a directory");
}

TEST_CASE("a log is written to a pipe that is read, and waits for no reader", "[exec][log]") {
  const TestFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string alone = pipe + ": cannot be opened for writing: nobody reads it";
  CHECK(message_of([&] { GrowingFile::create(pipe); }) == alone);
  CHECK(message_of([&] { GrowingFile::append_lines(pipe); }) == alone);
  for (const auto& begin : {GrowingFile::create, GrowingFile::append_lines}) {
    const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    GrowingFile file = begin(pipe);
    file.add("one\n");
    std::array<char, 16> text{};
    CHECK(read(reader, text.data(), text.size()) == 4);
    CHECK(std::string(text.data()) == "one\n");
    close(reader);
    CHECK(message_of([&] { file.add("two\n"); }) == pipe + ": cannot be written: Broken pipe");
  }
}

TEST_CASE("a slow reader finds every scalar of an event file", "[exec][log]") {
  CHECK(slow_crc("123456789") == 0xe3069283);  // the check value of the catalogue
  const TestFolder folder;
  {
    EventFile file(folder.path());
    const std::array<Scalar, 2> first = {{{"loss", 5.5}, {"tokens_per_s", 123456}}};
    const std::array<Scalar, 1> second = {{{"loss", -0.25}}};
    file.add(1, first);
    file.add(300, second);
  }
  const std::vector<std::string> files = folder.names();
  REQUIRE(files.size() == 1);
  CHECK(files[0].starts_with("events.out.tfevents."));
  const std::vector<std::string> records = records_of(content_of(folder.file(files[0])));
  REQUIRE(records.size() == 3);
  CHECK(only(fields_of(records[0]), 3).bytes == "brain.Event:2");
  std::map<std::pair<std::uint64_t, std::string>, float> scalars;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const auto event = fields_of(records[i]);
    CHECK(std::bit_cast<double>(only(event, 1).number) > 1.7e9);  // a time since 2023
    const auto values = fields_of(only(event, 5).bytes);
    for (const auto& [number, value] : values) {
      CHECK(number == 1);
      const auto parts = fields_of(value.bytes);
      scalars[{only(event, 2).number, only(parts, 1).bytes}] =
          std::bit_cast<float>(static_cast<std::uint32_t>(only(parts, 2).number));
    }
  }
  CHECK(scalars == decltype(scalars){{{1, "loss"}, 5.5F},
                                     {{1, "tokens_per_s"}, 123456.F},
                                     {{300, "loss"}, -0.25F}});
}

TEST_CASE("an event's bytes after its time are those of TensorFlow's own writer", "[exec][log]") {
  const TestFolder folder;
  EventFile file(folder.path());
  const std::array<Scalar, 2> scalars = {{{"loss", 0.0}, {"tokens_per_s", -1.5}}};
  file.add(0, scalars);
  file.add(300, {});
  const std::vector<std::string> records = records_of(content_of(folder.file(folder.names()[0])));
  const auto after_time = [&](std::size_t i) {
    CHECK(records.at(i)[0] == 0x09);
    return records.at(i).substr(9);
  };
  using namespace std::string_literals;
  CHECK(after_time(0) ==
        "\x1a\x0d"
        "brain.Event:2");
  CHECK(after_time(1) ==
        "\x10\x00"
        "\x2a\x22"
        "\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x00"
        "\x0a\x13\x0a\x0ctokens_per_s\x15\x00\x00\xc0\xbf"s);
  CHECK(after_time(2) == "\x10\xac\x02\x2a\x00"s);
}
