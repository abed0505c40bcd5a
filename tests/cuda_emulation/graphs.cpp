// What streams are told between the begin and the end of a capture, kept to be run many times.
#include <algorithm>
#include <queue>
#include <utility>

#include "tests/cuda_emulation/lock.h"
#include "tests/cuda_emulation/streams.h"

namespace emulated {

void run_nodes(const Nodes& nodes) {
  std::vector<std::size_t> missing(nodes.size());
  std::vector<std::vector<std::size_t>> next(nodes.size());
  std::priority_queue<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (const std::size_t before : nodes[i].after) next[before].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    run_work(nodes[i].work);
    for (const std::size_t other : next[i])
      if (--missing[other] == 0) ready.push(other);
  }
}

namespace {

// Whether all that was captured comes before the end of the stream that began.
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
  append(stream, {[nodes = exec->nodes] { run_nodes(*nodes); }, true});
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
