// Gives the host access to a backend's memory.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "exec/backends/backend.h"
#include "models/core/error.h"

namespace meshwright::exec {

// Gives access to `count` elements at `data`, in place if the host shares the memory. Otherwise it
// copies them once what was issued to the current stream is complete, and copies them back when the
// view ends, unless the elements are const.
template <typename T>
class HostView {
 public:
  HostView(Backend& backend, T* data, std::int64_t count)
      : backend_(backend), data_(data), count_(count) {
    if (count == 0 || backend.shares_memory_with_host()) return;
    copy_.resize(count);
    wait_for_stream(backend);
    backend.read(copy_.data(), data, bytes());
  }
  ~HostView() {
    if constexpr (!std::is_const_v<T>) write_back();
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  T* data() { return copy_.empty() ? data_ : copy_.data(); }
  T& operator*() { return *data(); }
  T* operator->() { return data(); }

 private:
  // Ignores errors: a device that cannot be written to has failed, and reports that again at the
  // next call.
  void write_back() noexcept {
    if (copy_.empty()) return;
    try {
      backend_.write(data_, copy_.data(), bytes());
    } catch (const RunError&) {
    }
  }
  std::int64_t bytes() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }

  Backend& backend_;
  T* data_;
  std::int64_t count_;
  std::vector<std::remove_const_t<T>> copy_;
};

}  // namespace meshwright::exec
