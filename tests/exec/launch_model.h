// Models how long the CUDA backend's kernels should take: the emulated device lists the launches of
// one training step (tests/cuda_emulation), a few numbers describe a device, and operations know
// their bytes and FLOPs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/program.h"
#include "tests/cuda_emulation/emulated.h"

namespace meshwright::tests {

// An H100 SXM, by its data sheet. Other numbers were measured on an H200 (docs/gpu.md), which has
// the same multiprocessors.
struct DeviceModel {
  std::int64_t multiprocessors = 132;
  std::int64_t threads = 2048, blocks = 32, shared_bytes = 228 << 10;  // a multiprocessor's
  double bytes_per_s = 3.35e12, flop_per_s = 989e12;                   // on paper
  double memory_share = 0.80;  // share of bytes_per_s that a long kernel reaches
  // Published runs reach 530e12 to 620e12 with these shapes. GPT-2 XL's step on an H200 reached
  // 594e12 in the forward pass, 636e12 for gradients of inputs and 680e12 for those of weights.
  double product_flop_per_s = 600e12;
  double kernel_s = 0.8e-6;  // a kernel that does nothing, in a graph
  std::int64_t saturating_threads =
      512;  // threads on a multiprocessor that keep its share of memory busy
};

// The blocks of a grid on the device: how many run at once, and in how many waves all of them run.
struct Waves {
  std::int64_t blocks = 0, at_once = 0;
  double waves = 0;
};
Waves waves_of(const DeviceModel& device, const emulated::Asked& kernel);

// Returns the seconds of a kernel that moves `bytes` bytes, split equally over its blocks. Few
// threads, in the last wave or all the time, do not keep the memory busy.
double memory_seconds(const DeviceModel& device, const emulated::Asked& kernel, double bytes);

// The launches of one kernel in a step, or the matmuls or the attention of one operation.
struct KernelRow {
  std::string name;
  int launches = 0;
  Waves waves;  // those of the longest launch
  double bytes = 0, flops = 0, ideal_s = 0, modelled_s = 0;
  double share() const { return ideal_s / modelled_s; }  // share of the roofline by the data sheet
};

// Returns the kernels of one step of a rank without communication, the longest first.
std::vector<KernelRow> model_launches(const Program& program, const DeviceModel& device);

}  // namespace meshwright::tests
