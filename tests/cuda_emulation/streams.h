// The contents of streams, events and graphs.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "tests/cuda_emulation/cuda_runtime.h"

namespace emulated {

struct Work {
  std::function<void()> run;
  bool on_device = true;  // otherwise the host's, which may not access device memory
  std::function<bool()> until = nullptr;  // instead of `run`: called until it returns true
};

// A node of a captured graph. Nodes are in the order of capture, and `after` has the numbers of
// earlier nodes that this one follows.
struct Node {
  Work work;
  std::set<std::size_t> after;
};
using Nodes = std::vector<Node>;

struct Capture {
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> joined;
  std::shared_ptr<Nodes> nodes = std::make_shared<Nodes>();
  cudaError_t failure = cudaSuccess;
};

struct EventState {
  CUstream_st* stream = nullptr;  // the one that recorded the event last
  std::uint64_t recorded = 0, done = 0;
  std::chrono::steady_clock::time_point time;
  std::weak_ptr<Capture> capture;  // the one in which the event was recorded last
  bool is_captured = false;
  std::set<std::size_t> last;  // if captured: the nodes before the event
};

struct Item {
  enum class Kind { work, record, wait };
  Kind kind = Kind::work;
  Work work;
  std::shared_ptr<EventState> event;
  std::uint64_t version = 0;  // number of the recording of the event
  CUstream_st* recorded_in = nullptr;
};

// Runs a graph: each node after those that it follows, and otherwise the latest first, so that a
// missing edge becomes visible. go_on() returns false if nodes are left, which wait for another
// rank.
class GraphRun {
 public:
  explicit GraphRun(std::shared_ptr<const Nodes> nodes);
  bool go_on();

 private:
  std::shared_ptr<const Nodes> nodes_;
  std::vector<std::size_t> missing_;  // for each node: nodes that it still waits for
  std::vector<std::vector<std::size_t>> next_;
  std::priority_queue<std::size_t> ready_;
  std::size_t left_;
};
bool try_work(const Work& work);  // returns false if it waits for another rank
void append(CUstream_st* stream, Work work);
CUstream_st& stream_of(CUstream_st* stream);  // null: the default stream

}  // namespace emulated

struct CUstream_st {
  std::deque<emulated::Item> queue;
  std::shared_ptr<emulated::Capture> capture;
  std::set<std::size_t> last;  // while capturing: the nodes that the next one follows
};
struct CUevent_st {
  std::shared_ptr<emulated::EventState> state = std::make_shared<emulated::EventState>();
};
struct CUgraph_st {
  std::shared_ptr<emulated::Nodes> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const emulated::Nodes> nodes;
};
