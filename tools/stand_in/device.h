// Describes the simulated GPUs: how many there are, of which kind, and which one a thread uses.
#pragma once

#include <cstddef>
#include <string>

namespace meshwright::stand_in {

struct Device {
  int count = 1;
  std::string name = "stand-in";
  int capability = 90;  // 10 x major + minor
  int multiprocessors = 132;
  std::size_t bytes = std::size_t{80} << 30;  // memory that programs may take
};

// Returns the GPUs as MESHWRIGHT_STAND_IN_{COUNT,NAME,CAPABILITY,MULTIPROCESSORS,BYTES} describe
// them.
const Device& device();
int current_device();
void use_device(int number);

}  // namespace meshwright::stand_in
