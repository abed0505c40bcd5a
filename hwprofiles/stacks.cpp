#include "hwprofiles/stacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/load.h"
#include "models/core/data_files.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/names_in.h"

namespace meshwright::hwprofiles {

namespace {

SoftwareStack read_stack(const std::string& folder, const std::string& name) {
  Fields fields = read_json_file(folder + "/" + name + ".json");
  SoftwareStack stack;
  stack.name = name;
  stack.title = fields.required<std::string>("title");
  stack.since = fields.required<std::string>("since");
  stack.until = fields.required<std::string>("until");
  stack.software = fields.required<std::string>("software");
  stack.source = fields.required<std::string>("source");
  Fields kernels = fields.object("kernels");
  for (const std::string& gpu : kernels.keys()) {
    const auto share = kernels.required<double>(gpu);
    if (!(share > 0 && share <= 2)) kernels.fail(gpu, "is out of range; use above 0, to 2");
    stack.kernels[gpu] = share;
  }
  kernels.done();
  fields.done();
  return stack;
}

std::vector<SoftwareStack> read_stacks() {
  const std::string folder = parts_folder() + "/stacks";
  std::vector<SoftwareStack> stacks;
  for (const std::string& name : json_names(folder).value_or(std::vector<std::string>()))
    stacks.push_back(read_stack(folder, name));
  std::ranges::sort(stacks, {}, &SoftwareStack::since);
  return stacks;
}

void scale(EfficiencyCurve& curve, double share) {
  for (auto& point : curve.points) point.fraction *= share;
}

}  // namespace

const std::vector<SoftwareStack>& software_stacks() {
  static const std::vector<SoftwareStack> stacks = read_stacks();
  return stacks;
}

const SoftwareStack& software_stack(const std::string& name) {
  for (const SoftwareStack& stack : software_stacks())
    if (stack.name == name) return stack;
  throw InputError(fmt::format("/cluster/stack: unknown stack '{}'; known: {}", name,
                               list_of(names_in(software_stacks()), "and")));
}

Machine with_stack(Machine machine, const std::string& stack) {
  if (stack.empty()) return machine;
  for (const auto& [gpu, share] : software_stack(stack).kernels) {
    if (!machine.gpu.name.starts_with(gpu)) continue;
    for (EfficiencyCurve* curve :
         {&machine.gpu.gemm, &machine.gpu.attention, &machine.gpu.attention_backward})
      scale(*curve, share);
    KernelConstants& kernels = machine.gpu.kernels;
    for (double* constant :
         {&kernels.flash_forward, &kernels.flash_backward, &kernels.flash2_forward,
          &kernels.flash2_backward, &kernels.flash3_forward, &kernels.flash3_backward,
          &kernels.cudnn_forward, &kernels.cudnn_backward})
      *constant *= share;
  }
  return machine;
}

}  // namespace meshwright::hwprofiles
