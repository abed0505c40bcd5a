#include "exec/data/mixture.h"

#include <algorithm>
#include <numeric>

#include "models/core/error.h"
#include "models/program/step_settings.h"

namespace meshwright::exec {

namespace {

// Returns how many of every `mixture_stretch` sequences each file has, by weight. The counts are
// rounded down, and what is left over goes to the files with the largest remainders.
std::vector<std::int64_t> shares_of(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> shares;
  std::vector<double> remainders;
  for (const double weight : weights) {
    const double exact = weight / sum * mixture_stretch;
    shares.push_back(static_cast<std::int64_t>(exact));
    MESHWRIGHT_CHECK(shares.back() > 0, "every file of a mixture has a sequence of a stretch");
    remainders.push_back(exact - static_cast<double>(shares.back()));
  }
  std::int64_t left =
      mixture_stretch - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (; left > 0; --left) {
    const auto most = std::ranges::max_element(remainders);
    ++shares[most - remainders.begin()];
    *most = -1;
  }
  return shares;
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) : share_(shares_of(weights)) {
  std::vector<std::int64_t> taken(share_.size(), 0);
  for (std::int64_t place = 1; place <= mixture_stretch; ++place) {
    std::size_t next = 0;
    std::int64_t furthest = 0;
    for (std::size_t file = 0; file < share_.size(); ++file) {
      const std::int64_t behind = share_[file] * place - taken[file] * mixture_stretch;
      if (file == 0 || behind > furthest) next = file, furthest = behind;
    }
    file_at_.push_back(static_cast<std::uint32_t>(next));
    before_.push_back(static_cast<std::uint32_t>(taken[next]++));
  }
}

std::pair<std::size_t, std::int64_t> Mixture::at(std::int64_t position) const {
  const auto place = static_cast<std::size_t>(position % mixture_stretch);
  const std::size_t file = file_at_[place];
  return {file, position / mixture_stretch * share_[file] + before_[place]};
}

}  // namespace meshwright::exec
