#include "exec/data/images.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright {

ImageFile::ImageFile(const std::string& path, std::int64_t pixels, std::int64_t classes)
    : file_(path, "one image"), pixels_(pixels), label_bytes_(classes > 256 ? 2 : 1) {
  if (file_.bytes() % record_bytes() != 0)
    throw InputError(path + ": has " + std::to_string(file_.bytes()) +
                     " bytes, no multiple of the " + std::to_string(record_bytes()) +
                     " of a record: a label of " + std::to_string(label_bytes_) + " and " +
                     std::to_string(pixels_) + " pixels");
  for (std::int64_t image = 0; image < size(); ++image)
    if (label(image) >= classes)
      throw InputError(path + ": label " + std::to_string(label(image)) + " of image " +
                       std::to_string(image) + " is not one of the model's " +
                       std::to_string(classes) + " classes; labels are 0 to " +
                       std::to_string(classes - 1));
}

std::int32_t ImageFile::label(std::int64_t image) const {
  const unsigned char* record = file_.data() + image * record_bytes();
  return label_bytes_ == 1 ? record[0] : little_endian_16(record);
}

void ImageFile::read(std::int64_t image, std::int32_t* pixels_and_label) const {
  MESHWRIGHT_CHECK(image >= 0 && image < size(), "images are read inside their file");
  const unsigned char* record = file_.data() + image * record_bytes();
  std::copy_n(record + label_bytes_, pixels_, pixels_and_label);
  pixels_and_label[pixels_] = label(image);
}

}  // namespace meshwright
