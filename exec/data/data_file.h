// A file of data that is read at byte offsets and stays open, often from a run's first step to its
// last.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright::exec {

class DataFile {
 public:
  // Throws an InputError that names the file if it is missing, unreadable, not a regular file,
  // empty, or a container (containers.h). `holds` says in the message what it should at least hold
  // ("one token").
  DataFile(std::string path, const std::string& holds);
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }  // when it was opened

  // Reads all of these bytes. Throws RunError if the disk fails, or if somebody has truncated the
  // file since it was opened. The file is not mapped into memory, because then both faults would
  // end the process by a signal.
  void read(std::int64_t offset, void* to, std::int64_t bytes) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

inline std::uint16_t little_endian_16(const unsigned char* at) {
  return static_cast<std::uint16_t>(at[0] | at[1] << 8);
}

inline std::uint32_t little_endian_32(const unsigned char* at) {
  return little_endian_16(at) | std::uint32_t{little_endian_16(at + 2)} << 16;
}

inline std::uint64_t little_endian_64(const unsigned char* at) {
  return little_endian_32(at) | std::uint64_t{little_endian_32(at + 4)} << 32;
}

}  // namespace meshwright::exec
