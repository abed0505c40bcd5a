// Messages that a rank sends to itself on its device, as between two virtual stages that follow
// each other on one rank. Sender and receiver use different streams, and the sender's stream does
// not wait for the receiver. Therefore the message is copied into memory that this class keeps
// until the receiver's stream takes it. The memory is then used again for later messages.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <list>

namespace meshwright::exec {

class OwnMessages {
 public:
  OwnMessages() = default;
  ~OwnMessages();
  OwnMessages(const OwnMessages&) = delete;
  OwnMessages& operator=(const OwnMessages&) = delete;

  void send(const void* from, std::int64_t bytes, int tag, cudaStream_t stream);
  // Copies the oldest message with this tag to `to`. Throws RunError if there is none, or if it has
  // another size.
  void receive(void* to, std::int64_t bytes, int tag, cudaStream_t stream);

 private:
  struct Place {
    void* memory = nullptr;
    std::int64_t capacity = 0, bytes = 0;
    int tag = -1;  // -1: free
    cudaEvent_t written = nullptr, read = nullptr;
    bool was_read = false, in_graph = false;  // in_graph: the last read was in a captured graph
  };

  Place& free_place(std::int64_t bytes);

  std::list<Place> places_;  // places in use are in the order of sending
};

}  // namespace meshwright::exec
