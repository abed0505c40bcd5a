// Estimates the share of a GPU's peak, at most 1, that the shape of a matmul allows, in addition to
// the machine's efficiency curve. It falls with tiles that extend beyond the result, waves that are
// not full, misaligned rows, and a depth k too short to hide how tiles begin and end. It is 1 on a
// CPU, and for a kernel without a shape (m = 0).
#pragma once

#include "hwprofiles/gpu.h"
#include "models/program/graph/op_table.h"

namespace meshwright::sim {

double shape_efficiency(const Kernel& product, const Gpu& gpu, Precision precision);

}  // namespace meshwright::sim
