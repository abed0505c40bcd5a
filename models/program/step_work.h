// Appends the kernels that an optimizer step runs on one bucket, or on one piece of it.
#pragma once

#include <vector>

#include "models/program/graph/op_table.h"
#include "models/program/program.h"

namespace meshwright::program {

void append_step_kernels(const Program& program, const Instruction& step,
                         std::vector<Kernel>& kernels);

}  // namespace meshwright::program
