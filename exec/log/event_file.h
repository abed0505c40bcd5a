// Writes TensorBoard's event files, which hold scalars over steps. The format is that of
// TensorFlow's sources: records (TFRecord: length, masked CRC-32C of the length, data, masked
// CRC-32C of the data), each of which is an `Event` message of protocol buffers (event.proto).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "exec/log/growing_file.h"

namespace meshwright::exec {

struct Scalar {
  std::string_view tag;
  double value = 0;  // written as a float
};

class EventFile {
 public:
  // Creates a new file in `folder`, and the folder if it does not exist. TensorBoard reads all
  // files of a folder as one run. Throws RunError if the file cannot be written.
  explicit EventFile(const std::string& folder);
  void add(std::int64_t step, std::span<const Scalar> scalars);

 private:
  GrowingFile file_;
};

}  // namespace meshwright::exec
