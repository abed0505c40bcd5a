// The share of a GPU's peak that the shape of a matrix product allows, beside the machine's
// efficiency curve: tiles that stick out, waves that are not full, misaligned rows,
// a depth that is soon over.
#pragma once

#include "hwprofiles/gpu.h"
#include "models/program/graph/op_table.h"

namespace meshwright {

double shape_efficiency(const Kernel& product, const Gpu& gpu, Precision precision);

}  // namespace meshwright
