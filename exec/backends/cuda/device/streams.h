// The streams of a GPU, the events between them, and the capture of a step on all streams.
#pragma once

#include <array>
#include <vector>

#include "exec/backends/cuda/device/resources.h"
#include "exec/backends/streams.h"
#include "models/program/program.h"

namespace meshwright::exec::cuda {

class GpuStreams : public Streams {
 public:
  GpuStreams();
  cudaStream_t current() const { return streams_[stream_].get(); }
  const std::array<OwnedStream, stream_count>& all() const { return streams_; }

  void use(int stream) override { stream_ = stream; }
  void record(int event) override;
  void await(int event) override;
  void wait_for_stream() override;
  void begin_stamps() override;
  int stamp() override;
  double stamped(int stamp) override;

 private:
  cudaEvent_t event_of(int event);

  std::array<OwnedStream, stream_count> streams_;
  std::size_t stream_ = 0;
  std::vector<OwnedEvent> events_;
  std::vector<OwnedEvent> stamp_events_;
  int stamps_ = 0;
};

// A step that is captured as a CUDA graph. Capture begins on stream 0, for which the other streams
// then wait. It ends on stream 0, after this has waited for all others.
class CapturedStep : public StepCapture {
 public:
  explicit CapturedStep(GpuStreams& streams);
  void begin() override;
  void end() override;
  void replay() override;
  void drop() override { graph_.reset(); }

 private:
  GpuStreams& streams_;
  OwnedEvent fork_ = make_event();
  std::array<OwnedEvent, stream_count> join_;
  OwnedGraph graph_;
};

}  // namespace meshwright::exec::cuda
