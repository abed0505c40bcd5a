// A file of data that a run reads at places, from its first step to its last.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright {

class DataFile {
 public:
  // Missing, unreadable, no regular file, empty or a container: an InputError that names it;
  // `holds` is what it should at least hold ("one token").
  DataFile(std::string path, const std::string& holds);
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }  // when it was opened

  // All of it, or a RunError: the disk fails, or somebody has cut the file short since. It is read,
  // not mapped: of a mapped file both would end the process by a signal.
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

}  // namespace meshwright
