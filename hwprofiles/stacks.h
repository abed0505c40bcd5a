// Describes software generations, called stacks. Published steps of one plan on one machine become
// faster over the years through software only. A stack specifies by how much on each kind of GPU.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::hwprofiles {

struct SoftwareStack {
  std::string name;  // the year in which it begins, or the year after
  std::string title, software, source;
  std::string since, until;  // months (YYYY-MM); `until` is "" for the newest
  // Factors on the shares of the peak that a GPU's profile gives for matmuls and fused attention,
  // by the beginning of the GPU's name. GPUs that are not listed have the same shares as in the
  // newest stack.
  std::map<std::string, double> kernels;
};

// Returns the stacks that come with the program, the newest last.
const std::vector<SoftwareStack>& software_stacks();

// Returns the stack of this name. Throws an InputError that names the known stacks if the name is
// unknown.
const SoftwareStack& software_stack(const std::string& name);

// Returns the machine with that software: the shares of its kernels are multiplied by the stack's
// factors. An empty name means the newest stack, and leaves the machine as it is.
Machine with_stack(Machine machine, const std::string& stack);

}  // namespace meshwright::hwprofiles
