// The GPUs that are not there: how many, of which kind, and which one a thread uses.
#pragma once

#include <cstddef>
#include <string>

namespace meshwright::stand_in {

struct Device {
  int count = 1;
  std::string name = "stand-in";
  int capability = 90;  // 10 x major + minor
  int multiprocessors = 132;
  std::size_t bytes = std::size_t{80} << 30;  // that programs may take
};

// From MESHWRIGHT_STAND_IN_{COUNT,NAME,CAPABILITY,MULTIPROCESSORS,BYTES}.
const Device& device();
int current_device();
void use_device(int number);

}  // namespace meshwright::stand_in
