#include "exec/backends/cuda/device/streams.h"

namespace meshwright::exec::cuda {

// Makes the streams. All except the compute stream have high priority. The kernels of collectives
// need few multiprocessors, but soon, because other ranks wait for them. With the same priority as
// a matmul whose blocks still wait for multiprocessors, a collective would have to wait for all of
// these blocks to start.
GpuStreams::GpuStreams() {
  for (std::size_t i = 0; i < streams_.size(); ++i)
    streams_[i] = make_stream(static_cast<Stream>(i) == Stream::compute ? StreamPriority::usual
                                                                        : StreamPriority::high);
}

void GpuStreams::record(int event) {
  check(cudaEventRecord(event_of(event), current()), "cudaEventRecord");
}

void GpuStreams::await(int event) {
  check(cudaStreamWaitEvent(current(), event_of(event)), "cudaStreamWaitEvent");
}

void GpuStreams::wait_for_stream() {
  check(cudaStreamSynchronize(current()), "cudaStreamSynchronize");
}

void GpuStreams::begin_stamps() {
  stamps_ = 0;
  use(0);
  stamp();
}

int GpuStreams::stamp() {
  const auto index = static_cast<std::size_t>(stamps_++);
  while (stamp_events_.size() <= index) stamp_events_.push_back(make_event(cudaEventDefault));
  check(cudaEventRecord(stamp_events_[index].get(), current()), "cudaEventRecord");
  return static_cast<int>(index);
}

double GpuStreams::stamped(int stamp) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, stamp_events_[0].get(), stamp_events_[stamp].get()),
        "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

cudaEvent_t GpuStreams::event_of(int event) {
  const auto index = static_cast<std::size_t>(event);
  while (events_.size() <= index) events_.push_back(make_event());
  return events_[index].get();
}

CapturedStep::CapturedStep(GpuStreams& streams) : streams_(streams) {
  for (OwnedEvent& event : join_) event = make_event();
}

void CapturedStep::begin() {
  streams_.use(0);
  check(cudaStreamBeginCapture(streams_.current(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  check(cudaEventRecord(fork_.get(), streams_.current()), "cudaEventRecord");
  for (std::size_t i = 1; i < streams_.all().size(); ++i)
    check(cudaStreamWaitEvent(streams_.all()[i].get(), fork_.get()), "cudaStreamWaitEvent");
}

void CapturedStep::end() {
  const cudaStream_t first = streams_.all()[0].get();
  for (std::size_t i = 1; i < streams_.all().size(); ++i) {
    check(cudaEventRecord(join_[i].get(), streams_.all()[i].get()), "cudaEventRecord");
    check(cudaStreamWaitEvent(first, join_[i].get()), "cudaStreamWaitEvent");
  }
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(first, &graph), "cudaStreamEndCapture");
  const Owned<cudaGraph_t, cudaGraphDestroy> captured(graph);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  graph_.reset(made);
}

void CapturedStep::replay() {
  check(cudaGraphLaunch(graph_.get(), streams_.all()[0].get()), "cudaGraphLaunch");
}

}  // namespace meshwright::exec::cuda
