// Runs two ranks on device memory, where rank 1 fails rank 0 as the argument says. The deadline is
// 1 s.
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "exec/backends/cuda/device/check.h"
#include "exec/comm/nccl.h"

using namespace meshwright::tests;

namespace {

class OneStream : public StreamSource {
 public:
  void* current_stream() override { return stream; }
  cudaStream_t stream = nullptr;
};

[[noreturn]] void hang() {
  for (;;) pause();
}

void wait_for(cudaStream_t stream) {
  cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

// Replays captured all-reduces, on rank 0 once more than on rank 1.
void replay(Communicator& group, void* data, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin");
  group.all_reduce(data, 16, Dtype::f32, false);
  group.all_reduce(data, 8, Dtype::f64, true);
  cuda::check(cudaStreamEndCapture(stream, &graph), "end");
  cuda::check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  for (int turn = 0; turn < 3 - group.rank(); ++turn) {
    cuda::check(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
    wait_for(stream);
  }
  hang();
}

void fail(const std::string& how, World& world, cudaStream_t stream) {
  void* data = world.allocate(64);
  const int both[] = {0, 1};
  const bool is_first = world.rank() == 0;
  if (how == "no group" && !is_first) hang();
  const auto tensor = world.group(GroupKind::tensor, both);
  const auto pipeline = world.group(GroupKind::pipeline, both);
  tensor->all_reduce(data, 16, Dtype::f32, false);
  wait_for(stream);
  if (how == "killed" && !is_first) raise(SIGKILL);
  if (how == "replay") replay(*tensor, data, stream);
  if ((how == "silent" || how == "no message") && !is_first) hang();
  if (how == "other" && !is_first) tensor->broadcast(data, 64, 0);
  if (how == "no message") pipeline->irecv(data, 64, 1, 0);
  if (how == "refused" && is_first) emulated::break_nccl(ncclRemoteError);
  if (how != "no message" && (how != "other" || is_first) && (how != "refused" || is_first))
    tensor->all_reduce(data, 16, Dtype::f32, true);
  if (how == "broken" && is_first) emulated::break_nccl(ncclRemoteError);
  if (!is_first && how != "other") hang();
  wait_for(stream);
}

}  // namespace

int main(int argc, char* argv[]) {
  if (argc != 2) return 1;
  const auto host = make_world("mpi");
  OneStream streams;
  cuda::check(cudaStreamCreateWithFlags(&streams.stream, cudaStreamNonBlocking), "stream");
  try {
    const auto world = make_nccl_world(*host, streams, 1);
    fail(argv[1], *world, streams.stream);
  } catch (const RunError& error) {
    std::fprintf(stderr, "rank %d caught: %s\n", host->rank(), error.what());
    host->abandon(4);
  }
  return 0;
}
