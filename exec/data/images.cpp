#include "exec/data/images.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::exec {

ImageFile::ImageFile(const std::string& path, std::int64_t pixels, std::int64_t classes)
    : file_(path, "one image"),
      pixels_(pixels),
      label_bytes_(classes > 256 ? 2 : 1),
      classes_(classes) {
  if (file_.bytes() % record_bytes() != 0)
    throw InputError(path + ": has " + std::to_string(file_.bytes()) +
                     " bytes, no multiple of the " + std::to_string(record_bytes()) +
                     " of a record: a label of " + std::to_string(label_bytes_) + " and " +
                     std::to_string(pixels_) + " pixels");
  for (std::int64_t image = 0; image < size(); ++image) {
    unsigned char begin[2];
    file_.read(image * record_bytes(), begin, label_bytes_);
    if (label(begin) >= classes_) throw InputError(no_class(begin, image));
  }
}

std::int32_t ImageFile::label(const unsigned char* record) const {
  return label_bytes_ == 1 ? record[0] : little_endian_16(record);
}

std::string ImageFile::no_class(const unsigned char* record, std::int64_t image) const {
  return file_.path() + ": label " + std::to_string(label(record)) + " of image " +
         std::to_string(image) + " is not one of the model's " + std::to_string(classes_) +
         " classes; labels are 0 to " + std::to_string(classes_ - 1);
}

void ImageFile::read(std::int64_t image, std::int32_t* pixels_and_label) {
  MESHWRIGHT_CHECK(image >= 0 && image < size(), "images are read inside their file");
  record_.resize(record_bytes());
  file_.read(image * record_bytes(), record_.data(), record_bytes());
  if (label(record_.data()) >= classes_)
    throw RunError(no_class(record_.data(), image) + "; the file was changed");
  std::copy_n(record_.data() + label_bytes_, pixels_, pixels_and_label);
  pixels_and_label[pixels_] = label(record_.data());
}

}  // namespace meshwright::exec
