// Facts that the compiler needs about the device that a plan is compiled for. The caller, which
// knows the machine, sets them.
#pragma once

namespace meshwright {

struct DeviceFacts {
  // FLOPs that it does while it moves one byte of memory: what recomputation under a budget weighs
  // kernels with. The default is near an A100's (fp16: 153).
  double flops_per_byte = 128;
  // Whether its products in 8 bits sum along the memory of both factors. A factor that is summed
  // along rows must then be stored transposed (Ada, Hopper).
  bool transposes_8_bits = false;
  bool snapshot_on_host = false;  // ranks compute on GPUs: snapshots lie in their hosts' memory
};

}  // namespace meshwright
