// Writes a timeline as MLCommons Chakra execution traces, which ASTRA-sim and Chakra's tools read:
// one file for each rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/program/timeline.h"

namespace meshwright::program {

// Returns the content of the file of rank `rank`: GlobalMetadata and Nodes (et_def.proto), each
// after a varint with its length. `entries` are the timeline of one rank, step after step. They may
// come from another rank of the same stage: the groups and peers in the file are those of `rank`.
//
// - The first node, METADATA_NODE, lists the process groups that the rank's collectives name, as
//   PyTorch's traces do: `pg_name` is a number, `ranks` the members. Group 0 is all ranks, and its
//   list is empty.
// - The other nodes stand for the entries, sorted within a step by task and instruction: COMP_NODE
//   (num_ops in FLOPs, and tensor_size, the bytes moved), COMM_COLL_NODE (comm_type, pg_name, and
//   comm_size: bytes of the rank's own input, as ASTRA-sim counts them), COMM_SEND_NODE and
//   COMM_RECV_NODE (comm_src, comm_dst, comm_size, comm_tag), and for copies from and to host
//   memory MEM_LOAD_NODE and MEM_STORE_NODE. A shift in a ring is a send and a receive.
// - data_deps of a node are the node before it on its stream in the same step, and the nodes that
//   its instruction waits for. A node that has neither depends on the last node of each stream of
//   the step before. Nodes have higher ids than those on which they depend.
// - Times are whole microseconds. Begin and end are rounded, so that durations add up.
// - A message has the same tag at its sender and its receiver.
std::string to_chakra(std::span<const TimelineEntry> entries, int rank,
                      const std::vector<Program>& stages);

}  // namespace meshwright::program
