// Keeps the work that streams get between the begin and the end of a capture, so that it can run
// many times.
#include <algorithm>
#include <utility>

#include "tests/cuda_emulation/lock.h"
#include "tests/cuda_emulation/streams.h"

namespace emulated {

GraphRun::GraphRun(std::shared_ptr<const Nodes> nodes)
    : nodes_(std::move(nodes)),
      missing_(nodes_->size()),
      next_(nodes_->size()),
      left_(nodes_->size()) {
  for (std::size_t i = 0; i < left_; ++i) {
    const std::set<std::size_t>& after = (*nodes_)[i].after;
    missing_[i] = after.size();
    for (const std::size_t before : after) next_[before].push_back(i);
    if (missing_[i] == 0) ready_.push(i);
  }
}

bool GraphRun::go_on() {
  std::vector<std::size_t> waiting;
  while (!ready_.empty()) {
    const std::size_t i = ready_.top();
    ready_.pop();
    if (!try_work((*nodes_)[i].work)) {
      waiting.push_back(i);
      continue;
    }
    --left_;
    for (const std::size_t other : next_[i])
      if (--missing_[other] == 0) ready_.push(other);
  }
  for (const std::size_t i : waiting) ready_.push(i);
  return left_ == 0;
}

namespace {

// Returns whether all captured nodes come before the end of the stream in which the capture began.
bool is_joined(const Nodes& nodes, const std::set<std::size_t>& last) {
  std::vector<bool> reached(nodes.size());
  for (const std::size_t node : last) reached[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (reached[i])
      for (const std::size_t before : nodes[i].after) reached[before] = true;
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

}  // namespace

}  // namespace emulated

using namespace emulated;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Lock lock;
  if (stream == nullptr || stream->capture) return failed(cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->joined = {stream};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock;
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream == nullptr ? nullptr : stream->capture;
  if (!capture || capture->origin != stream) return failed(cudaErrorStreamCaptureUnmatched);
  const bool joined = is_joined(*capture->nodes, stream->last);
  for (CUstream_st* other : capture->joined) {
    other->capture = nullptr;
    other->last.clear();
  }
  if (capture->failure != cudaSuccess) return failed(cudaErrorStreamCaptureInvalidated);
  if (!joined) return failed(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{capture->nodes};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Lock lock;
  const std::shared_ptr<Capture>& capture = stream_of(stream).capture;
  *status = !capture                          ? cudaStreamCaptureStatusNone
            : capture->failure != cudaSuccess ? cudaStreamCaptureStatusInvalidated
                                              : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const Lock lock;
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Lock lock;
  if (stream_of(stream).capture) return failed(cudaErrorStreamCaptureUnsupported);
  append(stream,
         {nullptr, true, [run = std::make_shared<GraphRun>(exec->nodes)] { return run->go_on(); }});
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
