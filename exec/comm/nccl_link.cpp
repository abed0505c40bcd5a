#include "exec/comm/nccl_link.h"

#include <algorithm>
#include <exception>

#include "exec/backends/cuda/device/check.h"
#include "models/core/error.h"
#include "models/program/describe.h"

namespace meshwright::exec {

void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const char* last = ncclGetLastError(comm);
  std::string text = std::string(call) + ": " + ncclGetErrorString(result);
  if (last != nullptr && *last != '\0') text += " (" + std::string(last) + ")";
  throw RunError(text);
}

std::string text_of(const NcclOperation& operation) {
  std::string text(name_of(operation.kind));
  text += " of " + std::to_string(operation.bytes) + " bytes";
  constexpr std::string_view types[] = {"f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i32"};
  if (operation.dtype) text += " " + std::string(types[static_cast<int>(*operation.dtype)]);
  if (operation.other < 0) return text;
  const bool comes =
      operation.kind == InstructionKind::recv || operation.kind == InstructionKind::broadcast;
  return text + (comes ? " from rank " : " to rank ") + std::to_string(operation.other);
}

namespace {

std::string with_others(std::string name, std::span<const int> others) {
  constexpr std::size_t most_named = 8;
  if (others.size() > most_named)
    return name + " (with " + std::to_string(others.size()) + " other ranks)";
  std::vector<std::string> ranks;
  for (const int rank : others) ranks.push_back(std::to_string(rank));
  return name + (others.size() == 1 ? " (with rank " : " (with ranks ") + list_of(ranks, "and") +
         ")";
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda::check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status == cudaStreamCaptureStatusActive;
}

}  // namespace

NcclLink::NcclLink(ncclComm_t comm, std::string name, std::span<const int> others)
    : comm_(comm), name_(with_others(std::move(name), others)), since_(Clock::now()) {}

// Windows, too, are closed together with the other members. While an exception is in flight they
// are left open.
NcclLink::~NcclLink() {
  if (std::uncaught_exceptions() > 0) {
    ncclCommAbort(comm_);
    return;
  }
#if NCCL_VERSION_CODE >= 22700
  for (const NcclWindow window : windows_) ncclCommWindowDeregister(comm_, window);
#endif
  if (ncclCommFinalize(comm_) == ncclSuccess) ncclCommDestroy(comm_);
}

void NcclLink::open_window([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if NCCL_VERSION_CODE >= 22700
  NcclWindow window = nullptr;
  check_nccl(ncclCommWindowRegister(comm_, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC),
             "ncclCommWindowRegister", comm_);
  if (window != nullptr) windows_.push_back(window);  // null: NCCL has no use for it here
#endif
}

unsigned int NcclLink::begin(const NcclOperation& operation, cudaStream_t stream) {
  const Numbered numbered{++issued_, operation};
  {
    const std::lock_guard lock(mutex_);
    if (is_capturing(stream))
      captured_.push_back(numbered);
    else
      latest_[numbered.number % latest_.size()] = numbered;
  }
  mark_.write(2 * numbered.number, stream);
  issuing_ = numbered.number;  // NCCL may now wait for a peer, at first use
  return numbered.number;
}

void NcclLink::end(unsigned int number, cudaStream_t stream, ncclResult_t result) {
  issuing_ = 0;
  if (result != ncclSuccess) check_nccl(result, describe(number).c_str(), comm_);
  mark_.write(2 * number + 1, stream);
}

std::string NcclLink::describe(unsigned int number) {
  const std::lock_guard lock(mutex_);
  const Numbered* found = &latest_[number % latest_.size()];
  const auto captured = std::lower_bound(
      captured_.begin(), captured_.end(), number,
      [](const Numbered& numbered, unsigned int wanted) { return numbered.number < wanted; });
  if (captured != captured_.end() && captured->number == number) found = &*captured;
  const std::string what =
      found->number == number ? text_of(found->operation) : std::string("an operation");
  return what + ", operation " + std::to_string(number) + " of " + name_;
}

std::optional<NcclLink::Trouble> NcclLink::trouble(Clock::time_point now, double deadline_s) {
  const unsigned int issuing = issuing_;
  const cuda::HostMark::Reading mark = mark_.read();
  const unsigned int busy = issuing != 0 ? issuing : mark.value % 2 == 0 ? mark.value / 2 : 0;

  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) state = asked;
  if (state != ncclSuccess && state != ncclInProgress) {
    std::string text = busy != 0 ? describe(busy) : name_;
    const char* last = ncclGetLastError(comm_);
    text += ": NCCL: " + std::string(ncclGetErrorString(state));
    if (last != nullptr && *last != '\0') text += " (" + std::string(last) + ")";
    return Trouble{text, false};
  }

  if (busy == 0 || issuing != seen_issuing_ || mark != seen_) {
    seen_ = mark;
    seen_issuing_ = issuing;
    since_ = now;
    return std::nullopt;
  }
  if (std::chrono::duration<double>(now - since_).count() < deadline_s) return std::nullopt;
  return Trouble{describe(busy), true};
}

}  // namespace meshwright::exec
