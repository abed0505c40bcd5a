// Gives the host access to weights and optimizer states in fp32, whatever types they are kept in,
// or in fp64 where they are kept in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "exec/optimizer/remainders.h"
#include "exec/runtime/host_view.h"

namespace meshwright::exec {

// An array in a backend's memory. If its type is i16, it holds what the bf16 numbers at `upper`
// lack.
struct StoredArray {
  std::byte* data = nullptr;
  Dtype type = Dtype::f32;
  std::byte* upper = nullptr;

  // Returns the array from `element` on. In a type with blocks, `element` must be the first of a
  // block.
  StoredArray from(std::int64_t element) const {
    return {data == nullptr ? nullptr : data + bytes_of(element, type), type,
            upper == nullptr ? nullptr : upper + element * bytes_of(Dtype::bf16)};
  }
};

// Calls work(Real{}) with the type of C++ in which an array of this type loses nothing.
template <typename Work>
auto as_exact(Dtype type, const Work& work) {
  return type == Dtype::f64 ? work(double{}) : work(float{});
}

// Gives access to `count` elements of an array as T, float or double, like HostView. Only arrays
// of f64 are read as double. Unless T is const, values that are written go back when the view ends,
// rounded to the array's type.
template <typename T>
class StateView {
  static constexpr Dtype own =
      std::is_same_v<std::remove_const_t<T>, double> ? Dtype::f64 : Dtype::f32;

 public:
  StateView(Backend& backend, const StoredArray& array, std::int64_t count)
      : backend_(backend),
        array_(array),
        count_(count),
        in_place_(backend, reinterpret_cast<T*>(array.data), array.type == own ? count : 0) {
    if (array.type == own || count == 0) return;
    MESHWRIGHT_CHECK(own == Dtype::f32, "only arrays of f64 are read as double");
    converted_.resize(count);
    HostView<const std::byte> stored(backend, array.data, bytes());
    if (array.type != Dtype::i16) {
      widen(stored.data(), array.type, count, converted_.data());
      return;
    }
    HostView<const std::byte> upper(backend, array.upper, bytes());
    join(reinterpret_cast<const BFloat16*>(upper.data()),
         reinterpret_cast<const std::int16_t*>(stored.data()), count, converted_.data());
  }
  ~StateView() {
    if constexpr (!std::is_const_v<T>) write_back();
  }
  StateView(const StateView&) = delete;
  StateView& operator=(const StateView&) = delete;

  T* data() {
    if constexpr (own == Dtype::f64)
      return in_place_.data();
    else
      return array_.type == own ? in_place_.data() : converted_.data();
  }

 private:
  // Ignores errors, like HostView's write_back().
  void write_back() noexcept {
    if (converted_.empty()) return;
    try {
      HostView<std::byte> stored(backend_, array_.data, bytes());
      if (array_.type != Dtype::i16)
        return narrow(converted_.data(), array_.type, count_, stored.data());
      HostView<std::byte> upper(backend_, array_.upper, bytes());
      split(converted_.data(), count_, reinterpret_cast<BFloat16*>(upper.data()),
            reinterpret_cast<std::int16_t*>(stored.data()));
    } catch (const RunError&) {
    }
  }
  std::int64_t bytes() const { return bytes_of(count_, array_.type); }

  Backend& backend_;
  StoredArray array_;
  std::int64_t count_;
  HostView<T> in_place_;
  std::vector<float> converted_;
};

}  // namespace meshwright::exec
