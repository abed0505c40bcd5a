// Defines the type of a tensor: its shape and the type of its elements.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "models/core/dtype.h"

namespace meshwright::program {

struct Shape {
  std::array<std::int64_t, 4> dims{};
  int rank = 0;
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> list) {
    for (std::int64_t dim : list) dims[rank++] = dim;
  }
  constexpr std::int64_t operator[](int i) const { return dims[i < 0 ? rank + i : i]; }
  constexpr std::int64_t& operator[](int i) { return dims[i < 0 ? rank + i : i]; }
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[i];
    return product;
  }
  constexpr bool operator==(const Shape&) const = default;
};

struct TensorType {
  Shape shape;
  Dtype dtype = Dtype::f32;
  constexpr std::int64_t bytes() const { return bytes_of(shape.elements(), dtype); }
  constexpr bool operator==(const TensorType&) const = default;
};

}  // namespace meshwright::program
