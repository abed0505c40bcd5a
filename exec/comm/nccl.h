// Communicators over NCCL, on device memory. One process has one GPU (the current device when the
// world is made), and everything is issued on the backend's current stream: a call returns at once,
// and what is issued on that stream afterwards sees its result. Nothing in a call waits for the
// device or allocates, so calls may be captured in a CUDA graph; buffers are used where they lie.
//
// Sums are NCCL's: in an order that depends on sizes and topology, not on the group's ranks, and
// rounded to the operands' type at every addition; the same run gives the same bits again.
// `deadline_s` is the longest that one operation may take once its stream has come to it
// (exec/comm/nccl_watch.h).
//
// NCCL has no tags. Messages of a `pipeline` group go between neighbours in its ring, and each
// direction of each pair has a communicator of its own, on which one side only sends and the other
// only receives: the k-th send meets the k-th receive. That they are the same message, and that
// streams which wait in this way cannot wait for each other in a circle, is what verify()
// (models/program/program.h) shows of a Program: it walks the streams as lanes in which a message
// blocks until both sides have come to it. Two orders of one pair would be a deadlock there. Sends
// and receives of one rank must be on two streams, as the Program has them. A message that waits
// for nothing needs no request: what they return is 0, complete.
// In other groups all messages between one wait() and the next are one NCCL group, issued by that
// wait(): they proceed together, in the order of posting for each pair of ranks.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/core/stream_source.h"

namespace meshwright {

// Returns a world of groups on device memory. Every rank makes it at the same time. The ranks find
// each other through `host` (mpi or self), which is also what on_host() returns. `host` and
// `streams` must outlive the world. If `windows` is set (NCCL 2.27 and newer), each group registers
// memory that all its members have in the same size as symmetric when it is made, so that NCCL's
// kernels read and write it in place. Throws InputError if this build's NCCL is older.
std::unique_ptr<World> make_nccl_world(World& host, StreamSource& streams, double deadline_s,
                                       bool windows = false);

// A rank's GPU; plain data, sent as it is.
struct DevicePlace {
  std::array<char, 64> host, gpu, bus;
};
// Returns the device place of every rank. `device` is this rank's device, or -1 if it has none.
// Every rank calls it.
std::vector<DevicePlace> device_places(World& host, int device);
// Returns whether all ranks have different GPUs, whatever device numbers they use for them.
bool are_distinct(std::span<const DevicePlace> places);

// Returns the text that a run prints once: the versions of NCCL and CUDA, those of `variables`
// (NAME=VALUE) that NCCL, its network plugin or CUDA read, and the hosts with their ranks and GPUs.
std::string describe_devices(std::span<const DevicePlace> places,
                             std::span<const std::string> variables);

}  // namespace meshwright
