// Which file each sequence of a mixture is of. In every stretch of `mixture_stretch` sequences a
// file has its share by weight, to the nearest whole number, spread evenly: at each place it is the
// file that is furthest behind its share, the first of equals. The same for every run and rank.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace meshwright {

class Mixture {
 public:
  explicit Mixture(std::span<const double> weights);  // above 0; as many as there are files

  // The file at a position, and how many of its sequences came before.
  std::pair<std::size_t, std::int64_t> at(std::int64_t position) const;

 private:
  std::vector<std::int64_t> share_;     // of a stretch, per file
  std::vector<std::uint32_t> file_at_;  // by place in the stretch
  std::vector<std::uint32_t> before_;   // of that file, in the stretch
};

}  // namespace meshwright
