// An engine is what a rank computes with: a backend, and a world on the backend's memory. A program
// has the kinds of engines in the table that it is linked with: kinds_cpu.cpp or kinds_cuda.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "exec/backends/backend.h"
#include "exec/backends/device_description.h"
#include "exec/comm/communicator.h"
#include "models/core/dtype.h"

namespace meshwright::exec {

struct Engine {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<World> on_device;  // null where the backend's memory is the host's
  // Returns the world whose groups and memory are on the backend. `host` is the world that the
  // engine was made with.
  World& world(World& host) const { return on_device ? *on_device : host; }
};

struct EngineOptions {
  Precision precision = Precision::fp32;
  bool deterministic = false;
  int threads = 1;                   // threads of the CPU backend
  int ranks_per_host = 1;            // the host deals its devices to them in turn
  double deadline_s = 600;           // longest wait of devices for each other, in seconds
  std::string kernel_folder{};       // keeps compiled kernels
  bool nccl_shares_devices = false;  // over NCCL even where ranks share a device (docs/gpu.md)
  bool nccl_windows = false;         // memory is registered with NCCL as symmetric
  int left_to_collectives = 0;       // multiprocessors that matmuls leave free (several ranks)
};

struct EngineKind {
  std::string_view name;
  // Returns the number of this computer's devices, 0 without a driver. The pointer is null if the
  // kind has no devices of its own.
  int (*devices)();
  DeviceDescription (*facts)(int device);
  // Makes the engine. Every rank calls it. If it throws on one rank, the others do not notice, so
  // the callers must exchange their errors. `host` must outlive the engine. The backend is null if
  // the computer has no device of this kind.
  Engine (*make)(const EngineOptions& options, World& host);
};
std::span<const EngineKind> engine_kinds();
const EngineKind* engine_kind(std::string_view name);  // null: not part of this program

// These functions are in the tables of engine kinds.
Engine make_cpu_engine(const EngineOptions& options, World& host);
Engine make_cuda_engine(const EngineOptions& options, World& host);
int cuda_devices_here();

}  // namespace meshwright::exec
