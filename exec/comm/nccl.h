// Communicators over NCCL, on device memory. One process has one GPU (the current device when the
// world is made). Operations of a communicator are issued on the backend's current stream: a call
// returns at once, and what is issued on that stream afterwards sees its result. Only barrier()
// waits for the device. Device memory is allocated only for messages of a rank to itself, until
// there is room for those in flight (own_messages.h). So the calls of a step may be captured in a
// CUDA graph after a step that was not. Buffers are used in place.
//
// Sums are NCCL's. Their order depends on sizes and topology instead of the group's ranks, and
// additions may round to the operands' type. `deadline_s` is the longest that one operation may
// take, in seconds, once its stream has come to it (exec/comm/nccl_watch.h).
//
// NCCL has no tags. Messages of a `pipeline` group go between neighbours in its ring. Each
// direction of each pair has a communicator of its own, on which one side only sends and the other
// only receives, so that the k-th send meets the k-th receive. verify() (models/program/program.h)
// shows that these two are the same message, and that streams that wait in this way cannot
// deadlock. For that it walks the streams of a Program as lanes in which a message blocks until
// both sides have come to it. Sends and receives of one rank must be on two streams, as in a
// Program. These messages need no request, so isend() and irecv() return 0, which is complete.
//
// In other groups, all messages to other ranks between one wait() and the next are one NCCL group,
// which that wait() issues. They proceed together, in the order of posting for each pair of ranks.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/core/stream_source.h"

namespace meshwright::exec {

// Returns a world of groups on device memory. Every rank makes it at the same time. The ranks find
// each other through `host` (mpi or self), which is also what on_host() returns. `host` and
// `streams` must outlive the world. If `windows` is set, each group of several ranks, except a
// pipeline group, registers memory that all its members have in the same size as symmetric when it
// is made, so that NCCL's kernels read and write it in place. Throws InputError if `windows` is set
// and this build's NCCL is older than 2.27.
std::unique_ptr<World> make_nccl_world(World& host, StreamSource& streams, double deadline_s,
                                       bool windows = false);

// The host of a rank, and its GPU's name and PCI bus id, which are empty if it has no GPU. This is
// plain data that is sent as bytes.
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

}  // namespace meshwright::exec
