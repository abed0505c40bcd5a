// Facts that the compiler needs about the device for which it compiles a plan. The compiler does
// not know the machine, so its caller sets them.
#pragma once

namespace meshwright::program {

struct DeviceFacts {
  // FLOPs that the device does while it moves one byte of memory. Recomputation under a memory
  // budget compares kernels by it. The default is near that of an A100 (fp16: 153).
  double flops_per_byte = 128;
  // Whether 8-bit matrix multiplications of the device sum along rows of memory only, for both
  // factors (Ada, Hopper). A factor that is summed along columns must then be stored transposed.
  bool transposes_8_bits = false;
  bool snapshot_on_host = false;  // snapshots are in host memory, because ranks compute on GPUs
};

}  // namespace meshwright::program
