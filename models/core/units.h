// Defines units as types, so that the sum of a rate and a time does not compile. Values are in
// seconds, bytes, FLOPs and their ratios. All operators that combine two units are in this file.
#pragma once

#include <compare>
#include <cstdint>

#include "models/core/rooms.h"

namespace meshwright::core {

template <class Tag>
struct Quantity {
  double value = 0;
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
};

template <class Tag>
constexpr Quantity<Tag> operator+(Quantity<Tag> a, Quantity<Tag> b) {
  return {a.value + b.value};
}
template <class Tag>
constexpr Quantity<Tag> operator-(Quantity<Tag> a, Quantity<Tag> b) {
  return {a.value - b.value};
}
template <class Tag>
constexpr Quantity<Tag> operator*(Quantity<Tag> a, double factor) {
  return {a.value * factor};
}
template <class Tag>
constexpr Quantity<Tag> operator*(double factor, Quantity<Tag> a) {
  return {a.value * factor};
}
template <class Tag>
constexpr Quantity<Tag> operator/(Quantity<Tag> a, double divisor) {
  return {a.value / divisor};
}
template <class Tag>
constexpr double operator/(Quantity<Tag> a, Quantity<Tag> b) {
  return a.value / b.value;
}

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using Flop = Quantity<struct FlopTag>;
using FlopPerSecond = Quantity<struct FlopPerSecondTag>;

constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) { return {bytes.value / rate.value}; }
constexpr Seconds operator/(Flop work, FlopPerSecond rate) { return {work.value / rate.value}; }
constexpr BytesPerSecond operator/(Bytes bytes, Seconds time) { return {bytes.value / time.value}; }

// Simulated time, in picoseconds since the start of the run. It is an integer, so that sums do not
// depend on their order, and reaches 106 days.
using SimTime = std::int64_t;
constexpr SimTime to_sim_time(Seconds time) {
  return static_cast<SimTime>(time.value * 1e12 + 0.5);
}
constexpr Seconds to_seconds(SimTime time) { return {static_cast<double>(time) * 1e-12}; }

}  // namespace meshwright::core
