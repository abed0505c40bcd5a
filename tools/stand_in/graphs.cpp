#include "tools/stand_in/graphs.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

using namespace meshwright::stand_in;

namespace {

struct Graph {
  std::uint64_t id = 0;
  std::uint64_t profile = 0;  // number that the recorder gave to the profile of this capture
  std::uint64_t origin = 0;   // stream that was captured first
  std::vector<Entry> entries;
};
using Kept = std::shared_ptr<Graph>;  // shared by a graph and what is instantiated of it

struct Capture {
  Kept graph;
  std::set<std::uint64_t> streams, events;
};

struct Captures {
  std::mutex lock;
  std::vector<Capture> open;
  std::uint64_t graphs = 0;
};

Captures& captures() {
  static Captures* const the = new Captures;
  return *the;
}
std::atomic<int> open_captures{0};
std::atomic<std::uint64_t> next_profile{0}, launches{0};

std::uint64_t of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

// Returns the capture of a stream, or null. The caller holds the lock.
Capture* capture_of(std::uint64_t stream) {
  for (Capture& each : captures().open)
    if (each.streams.contains(stream)) return &each;
  return nullptr;
}

template <typename Handle>
Kept& kept(Handle handle) {
  return *reinterpret_cast<Kept*>(handle);
}

// Returns an operation's number in the log: bits 0 to 31 are that of the profiler, bits 32 to 47
// the profile's, and bits 48 to 63 the launch's.
std::uint64_t operation_of(std::uint64_t operation, const Graph& graph, std::uint64_t launch) {
  return (operation & 0xffffffff) | (graph.profile & 0xffff) << 32 | launch << 48;
}

}  // namespace

namespace meshwright::stand_in {

bool captured(const Entry& entry) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard guard(captures().lock);
  Capture* capture = capture_of(entry.stream);
  if (entry.kind == Kind::wait_event && capture == nullptr)
    for (Capture& each : captures().open)
      if (each.events.contains(entry.numbers[0])) (capture = &each)->streams.insert(entry.stream);
  if (capture == nullptr) return false;
  if (entry.kind == Kind::record_event) capture->events.insert(entry.numbers[0]);
  capture->graph->entries.push_back(entry);
  return true;
}

}  // namespace meshwright::stand_in

extern "C" {

// Sets the recorder's number of the profile that names the operations of graphs captured from now
// on.
void meshwright_stand_in_next_profile(std::uint64_t profile) { next_profile = profile; }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard guard(captures().lock);
  const Kept graph =
      std::make_shared<Graph>(Graph{++captures().graphs, next_profile.load(), of(stream), {}});
  captures().open.push_back({graph, {of(stream)}, {}});
  ++open_captures;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard guard(captures().lock);
  Capture* const capture = capture_of(of(stream));
  if (capture == nullptr) return cudaErrorIllegalState;
  *graph = reinterpret_cast<cudaGraph_t>(new Kept(capture->graph));
  captures().open.erase(captures().open.begin() + (capture - captures().open.data()));
  --open_captures;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  const std::lock_guard guard(captures().lock);
  Capture* const capture = capture_of(of(stream));
  *status = capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  if (count != nullptr) *count = 0;
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (capture == nullptr) return cudaSuccess;
  if (id != nullptr) *id = capture->graph->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(&capture->graph);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(new Kept(kept(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes == nullptr)
    *count = kept(graph)->entries.size();
  else
    std::fill_n(nodes, *count, nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const std::uint64_t launch = ++launches % 0xffff + 1;  // never 0, which means no graph
  for (Entry entry : kept(graph)->entries) {
    if (entry.stream == kept(graph)->origin) entry.stream = of(stream);
    append_as(entry, operation_of(entry.operation, *kept(graph), launch));
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &kept(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete &kept(graph);
  return cudaSuccess;
}
}
