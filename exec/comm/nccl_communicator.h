// The collectives and messages of one group over NCCL. exec/comm/nccl.h describes how they behave.
#pragma once

#include <memory>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/comm/nccl_link.h"
#include "exec/comm/nccl_watch.h"
#include "exec/comm/own_messages.h"
#include "exec/core/stream_source.h"

namespace meshwright::exec {

ncclDataType_t nccl_type(Dtype dtype);  // throws RunError for types that are not summed

class NcclCommunicator : public Communicator {
 public:
  // One direction of a pair of neighbours, in which this rank only sends or only receives.
  struct Neighbour {
    int peer = 0;  // index in the group
    bool sends = false;
    std::unique_ptr<NcclLink> link;  // its rank 0 sends, its rank 1 receives
  };

  // `host` is the same group on host memory. `ranks` holds the world ranks of the members.
  NcclCommunicator(std::unique_ptr<Communicator> host, std::span<const int> ranks,
                   std::unique_ptr<NcclLink> all, std::vector<Neighbour> neighbours,
                   StreamSource& streams, NcclWatch& watch, double deadline_s);
  ~NcclCommunicator() override;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override;
  void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override;
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override;
  void all_to_all(const void* out, void* in, std::int64_t bytes) override;
  void broadcast(void* data, std::int64_t bytes, int root) override;
  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override;
  void gather_apart(void* first, std::int64_t bytes, std::int64_t distance) override;
  void reduce_apart(void* first, std::int64_t elements, Dtype dtype,
                    std::int64_t distance) override;
  void barrier() override;
  Request isend(const void* data, std::int64_t bytes, int to, int tag) override;
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override;
  bool test(Request request) override;
  void wait(Request request) override;

 private:
  struct Message {
    const void* from;  // a send
    void* to;          // a receive
    std::int64_t bytes;
    int peer, tag;
  };
  cudaStream_t stream() { return static_cast<cudaStream_t>(streams_.current_stream()); }
  int world_rank(int member) const { return ranks_[member]; }
  Request post(const Message& message);
  NcclLink& link_to(int peer, bool sends);

  std::unique_ptr<Communicator> host_;
  std::vector<int> ranks_;
  std::unique_ptr<NcclLink> all_;
  std::vector<Neighbour> neighbours_;
  StreamSource& streams_;
  NcclWatch& watch_;
  double deadline_s_;
  bool by_neighbours_;
  std::vector<Message> posted_;  // posted since the latest wait()
  OwnMessages own_messages_;
};

}  // namespace meshwright::exec
