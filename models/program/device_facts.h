// Defines the facts that the compiler needs about the device for which it compiles a plan. The
// compiler does not know the machine, so its caller sets them.
#pragma once

namespace meshwright::program {

struct DeviceFacts {
  // FLOPs that the device does while it moves one byte of memory. Recomputation under a memory
  // budget compares kernels by it. The default is near that of an A100 (fp16: 153).
  double flops_per_byte = 128;
  // Whether 8-bit matrix multiplications of the device need both factors contiguous along the
  // summed dimension (Ada, Hopper). Other factors must then be stored transposed.
  bool transposes_8_bits = false;
  // Whether the snapshots from which checkpoints are written are in host memory, because the ranks
  // compute on GPUs.
  bool snapshot_on_host = false;
};

}  // namespace meshwright::program
