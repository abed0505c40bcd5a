// Chooses the file of each sequence of a mixture. In every stretch of `mixture_stretch` sequences,
// each file has its share by weight, rounded to a whole number so that the shares fill the stretch.
// The sequences of a file are spread evenly: each position takes the file that is furthest behind
// its share, the first one if several are. The choice is the same for every run and rank.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace meshwright::exec {

class Mixture {
 public:
  explicit Mixture(std::span<const double> weights);  // above 0; as many as there are files

  // Returns the file at a position, and how many of its sequences come before.
  std::pair<std::size_t, std::int64_t> at(std::int64_t position) const;

 private:
  std::vector<std::int64_t> share_;     // sequences of a stretch, by file
  std::vector<std::uint32_t> file_at_;  // by index in the stretch
  std::vector<std::uint32_t> before_;   // earlier sequences of that file in the stretch
};

}  // namespace meshwright::exec
