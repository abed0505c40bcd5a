// A file of labelled images, as CIFAR-10's binary files are: one record after the other, each a
// label and then the image's pixels, one byte each, channel by channel and row by row. A label is
// one byte, or two (little-endian) where there are more than 256 classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/data/data_file.h"

namespace meshwright::exec {

class ImageFile {
 public:
  // `pixels` is the number of pixels of all channels of one image. Throws an InputError that names
  // the file if it is missing, empty, or not a whole number of records, or if a label is not below
  // `classes`.
  ImageFile(const std::string& path, std::int64_t pixels, std::int64_t classes);

  std::int64_t size() const { return file_.bytes() / record_bytes(); }  // images
  // Writes the pixels, 0 to 255, and after them the label. Throws RunError if the file has been
  // truncated since it was opened, or if the label is no longer below `classes`.
  void read(std::int64_t image, std::int32_t* pixels_and_label);

 private:
  std::int64_t record_bytes() const { return label_bytes_ + pixels_; }
  std::int32_t label(const unsigned char* record) const;
  std::string no_class(const unsigned char* record, std::int64_t image) const;

  DataFile file_;
  std::int64_t pixels_, label_bytes_, classes_;
  std::vector<unsigned char> record_;
};

}  // namespace meshwright::exec
