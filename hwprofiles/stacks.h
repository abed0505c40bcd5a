// Software generations. Published steps of one plan on one machine get faster from year to year by
// software alone; a stack says by how much on each kind of GPU.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright {

struct SoftwareStack {
  std::string name;  // the year it begins in, or the one after
  std::string title, software, source;
  std::string since, until;  // months; the newest has no end
  // What matrix products and fused attention reach with it, as a share of what the profile of a
  // GPU says, by how its name begins. A kind that is not here: no difference was measured.
  std::map<std::string, double> kernels;
};

// The stacks that come with the program, the newest last.
const std::vector<SoftwareStack>& software_stacks();

// An unknown name is an InputError that names the known ones.
const SoftwareStack& software_stack(const std::string& name);

// The machine as it is with that software. "": the newest.
Machine with_stack(Machine machine, const std::string& stack);

}  // namespace meshwright
