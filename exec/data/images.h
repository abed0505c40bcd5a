// A file of labelled images, as CIFAR-10's binary files are: one record after the other, each a
// label and then the image's pixels, one byte each, channel by channel and row by row. A label is
// one byte, or two (little-endian) where there are more than 256 classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/data/data_file.h"

namespace meshwright {

class ImageFile {
 public:
  // `pixels`: of all channels of one image. A missing or empty file, one that is no whole number of
  // records, or a label that is not below `classes`: an InputError that names the file, the place
  // and the value.
  ImageFile(const std::string& path, std::int64_t pixels, std::int64_t classes);

  std::int64_t size() const { return file_.bytes() / record_bytes(); }  // images
  // The pixels, 0 to 255, and after them the label. RunError when the file has been changed since.
  void read(std::int64_t image, std::int32_t* pixels_and_label);

 private:
  std::int64_t record_bytes() const { return label_bytes_ + pixels_; }
  std::int32_t label(const unsigned char* record) const;
  std::string no_class(const unsigned char* record, std::int64_t image) const;

  DataFile file_;
  std::int64_t pixels_, label_bytes_, classes_;
  std::vector<unsigned char> record_;
};

}  // namespace meshwright
