// What the compiler needs to know of the device that a plan is compiled for. Who knows the machine
// says so.
#pragma once

namespace meshwright {

struct DeviceFacts {
  // FLOPs that it does while it moves one byte of memory: what recomputation under a budget weighs
  // kernels with. The default is near an A100's (fp16: 153).
  double flops_per_byte = 128;
  // Its products in 8 bits sum along the memory of both factors: what is summed along rows must be
  // there transposed (Ada, Hopper).
  bool transposes_8_bits = false;
  bool snapshot_on_host = false;  // ranks compute on GPUs: snapshots lie in their hosts' memory
};

}  // namespace meshwright
