// A file mapped into memory, read only.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright {

class MappedFile {
 public:
  // Missing, unreadable, no regular file or empty: an InputError that names it; `holds` is what it
  // should at least hold ("one token").
  MappedFile(std::string path, const std::string& holds);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  const unsigned char* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  const unsigned char* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

inline std::uint16_t little_endian_16(const unsigned char* at) {
  return static_cast<std::uint16_t>(at[0] | at[1] << 8);
}

}  // namespace meshwright
