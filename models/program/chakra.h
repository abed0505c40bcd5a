// Writes a timeline as MLCommons Chakra execution traces, which ASTRA-sim and Chakra's tools read:
// one file for each rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/program/timeline.h"

namespace meshwright::program {

// Returns the file of one rank: GlobalMetadata and Nodes (et_def.proto), each after a varint with
// its length. `entries` are those of one rank, step after step. It may be any rank of the same
// stage in place of `rank`, because ranks of one stage differ in their groups and peers only, which
// are those of `rank` in the file.
//
// - The first node, METADATA_NODE, lists the process groups that the rank's collectives name, as
//   PyTorch's traces do: `pg_name` is a number, `ranks` the members. Group 0 is all ranks, and its
//   list is empty.
// - Then comes a node for each entry, in list order: COMP_NODE (num_ops in FLOPs and tensor_size,
//   bytes moved), COMM_COLL_NODE (comm_type, pg_name, and comm_size: bytes of the rank's own input,
//   as ASTRA-sim counts them), COMM_SEND_NODE and COMM_RECV_NODE (comm_src, comm_dst, comm_size,
//   comm_tag), MEM_LOAD_NODE and MEM_STORE_NODE for copies from and to host memory. A shift in a
//   ring is a send and a receive.
// - data_deps are the node before it on its stream and those that its waits name. A node without
//   any depends on the last node of each stream of the step before. Nodes that are depended on have
//   lower ids and have ended.
// - Times are whole microseconds. Begin and end are rounded, so that durations add up.
// - A message has the same tag at its sender and its receiver. No other message of the step between
//   the two ranks in this direction has it.
std::string to_chakra(std::span<const TimelineEntry> entries, int rank,
                      const std::vector<Program>& stages);

}  // namespace meshwright::program
